"""Where the traces of a function run: by rules, or as automatic placement decides."""
