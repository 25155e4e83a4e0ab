"""Control flow that becomes part of a graph: branches, loops, and lists of tensors."""

import eagerflow.control.rules  # noqa: F401 - it fills slots of modules below
from eagerflow.control.arrays import TensorArray
from eagerflow.control.branches import cond, switch
from eagerflow.control.loops import map, scan, while_loop

__all__ = ["TensorArray", "cond", "map", "scan", "switch", "while_loop"]
