"""Control flow that becomes part of a graph: branches, loops, and lists of tensors."""

import eagerflow.control.batching
import eagerflow.control.custom_derivatives  # noqa: F401 - it fills slots of modules below
from eagerflow.control.associative import associative_scan
from eagerflow.control.branches import cond, switch
from eagerflow.control.loops import map, scan, while_loop
from eagerflow.control.tensor_array import TensorArray

__all__ = ["TensorArray", "associative_scan", "cond", "map", "scan", "switch", "while_loop"]
