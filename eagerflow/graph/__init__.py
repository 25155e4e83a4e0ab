"""Dataflow graphs: their representation, text form, checks, files and pictures."""

from eagerflow.graph import parser, printer, serial
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType, Reference
from eagerflow.graph.verify import verify

__all__ = [
    "Graph",
    "Node",
    "NumberType",
    "Reference",
    "Value",
    "parser",
    "printer",
    "serial",
    "verify",
]
