"""Native kernels: written once in a loop form, called as functions or fused into regions.

- `loop_form`: the data structure of loops, and its builder; `loop_text`, `verify` and `interpreter`
  print loops, check them and define their meaning.
- `functions`: the rules of ops, a module for each family; `op_rules` is their table.
- `llvm`: the translation of loops to machine code; `ufuncs` makes functions of NumPy of the code.
- `callable_ops`: the form of an op that eager code calls; `fusion` fuses several ops into one call.

Nothing of this is loaded before a native kernel is asked for.
"""
