"""Loops as text of LLVM, with explicit vectors, so that no optimiser of LLVM is needed."""
