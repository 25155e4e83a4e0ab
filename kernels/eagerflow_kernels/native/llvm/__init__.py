"""Translation of loops to LLVM text with explicit vectors, so that no optimiser is needed."""
