"""Automatic placement: what a step would cost elsewhere, and where it costs least.

- `rates`: how fast devices and links of this machine are, measured once and kept on disk;
- `cost_model`: how long each node and each move takes, estimated or observed;
- `simulator`: a step with these costs, replayed;
- `replay`: a graph as what the executor makes of it, for the simulator;
- `search`: list scheduling along the critical path, improved by local search;
- `planning`: the placements that were weighed, and the one that is taken.
"""
