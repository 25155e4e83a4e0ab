"""Dataflow graphs: their representation, text form, checks, files and pictures."""

from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType, Reference, ValueType

__all__ = ["Graph", "Node", "NumberType", "Reference", "Value", "ValueType"]
