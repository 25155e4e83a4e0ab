"""Automatic placement: prediction of a step's time by placement, and search for the least.

- `rates`: speeds of the devices and links of this machine, measured once and kept on disk;
- `cost_model`: durations of nodes and moves, estimated or observed;
- `simulator`: simulation of a step with these costs;
- `executor_steps`: a graph as the step that the executor makes of it, for the simulator;
- `search`: list scheduling along the critical path, improved by local search;
- `planning`: the alternatives that were weighed, and the choice among them.
"""
