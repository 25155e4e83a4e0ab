"""Which parts of a graph become native kernels, and what these compute.

- `instruction_roles`: what an instruction can be in a kernel, or why it can be in none.
- `fusion_levels`: the order that instructions need, and which may run together.
- `native_regions`: the maximal parts that run as one kernel each, in an order in which all can run.
- `native_region_loops`: a part as loops, and how its arrays are handed over.

Nothing here knows of Python code or of threads; `eagerflow.runtime` runs the kernels.
"""
