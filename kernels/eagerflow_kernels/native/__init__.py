"""Native kernels: written once in a loop form, called as functions or fused into regions.

- `loop_form`: what loops are made of, and what writes them down; `loop_text`, `verify` and
  `interpreter` print, check and define them.
- `functions`: the rules that write an op down, a module for each family; `op_rules` is their
  table.
- `llvm`: loops as machine code; `ufuncs` makes functions of NumPy of it.
- `callable_ops`: the form of an op that eager code calls; `fusion` fuses several ops into one call.

Nothing of this is loaded before a native kernel is asked for.
"""
