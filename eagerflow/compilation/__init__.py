"""Choice of the parts of a graph that become native kernels, and the loops of these kernels.

- `instruction_roles`: the role of an instruction in a kernel, or the reason why it has none.
- `fusion_levels`: the dependences between instructions, and the levels at which they can be fused.
- `native_regions`: the maximal parts that run as one kernel each, in a valid order.
- `native_region_loops`: a region as loops, and the form in which its arrays are passed.

Nothing here knows of Python code or of threads; `eagerflow.runtime` runs the kernels.
"""
