"""Placement: where the nodes of a graph run, and the graph of each device.

- `measure`: the speed of the devices and links of this machine, for ``f.place("auto")``;
- `rules`, `apply_rules`: the rules given to ``f.place``, and their application to a graph;
- `automatic`: the planner behind ``f.place("auto")``;
- `node_homes`: the home device of each node of a lowered graph, and the nodes that may be copied;
- `demand`: the values and signals that each partition needs from others, and so what is sent;
- `cut`: the construction of the partitions.
"""

from importlib import import_module as _import_module
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """``measure``, imported on first use because its module has ops in it."""
    if name == "measure":
        return _import_module("eagerflow.placement.automatic.measuring").measure
    raise AttributeError(name)


def __dir__() -> list[str]:
    return ["measure"]
