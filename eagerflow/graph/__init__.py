"""Dataflow graphs: their representation, text form, checks, files and pictures."""

from eagerflow.graph import dot, parser, printer, serial, svg
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType, Reference
from eagerflow.graph.verify import verify

__all__ = [
    "Graph",
    "Node",
    "NumberType",
    "Reference",
    "Value",
    "dot",
    "parser",
    "printer",
    "serial",
    "svg",
    "verify",
]
