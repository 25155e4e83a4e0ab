"""Native kernels: written once in a loop form, called as functions or fused into regions.

- `form`: what loops are made of, and what writes them down; `text`, `verify` and `interpreter`
  print, check and define them.
- `functions`: the rules that write an op down, a module for each family; `library` is their table.
- `llvm`: loops as machine code; `ufuncs` makes functions of NumPy of it.
- `calls`: the form of an op that eager code calls; `regions` fuses several ops into one call.

Nothing of this is loaded before a native kernel is asked for.
"""
