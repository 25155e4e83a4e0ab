"""Placement: where the nodes of a graph run, and the graph of each device.

- `measure`: how fast the devices and links of this machine are, for ``f.place("auto")``;
- `rules`, `apply_rules`: what ``f.place`` asks for, applied to a graph;
- `automatic`: what ``f.place("auto")`` decides by itself;
- `node_homes`: at which device each node of a lowered graph is, and which nodes may be copied;
- `demand`: what each partition needs besides its own nodes, and so what is sent;
- `cut`: the partitions, made.
"""

from importlib import import_module as _import_module
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """``measure``, whose module has ops in it, when it is asked for."""
    if name == "measure":
        return _import_module("eagerflow.placement.automatic.measuring").measure
    raise AttributeError(name)


def __dir__() -> list[str]:
    return ["measure"]
