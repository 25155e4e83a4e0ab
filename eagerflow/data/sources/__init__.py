"""Source stages: files, tables, tensors, sequences and iterables."""
