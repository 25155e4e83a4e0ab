"""Dataflow graphs: their representation, text form, checks, files and pictures."""

from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.value_types import NumberType, Reference, ValueType

__all__ = ["Graph", "Node", "NumberType", "Reference", "Value", "ValueType"]
