"""Checkpoints: ``ef.checkpoint``.

A checkpoint is a folder: safetensors files with the elements of tensors, and ``manifest.json``
with the rest. It is complete or it is not there, and every byte of it is covered by a checksum.
"""

from eagerflow import counterparts as _counterparts
from eagerflow.checkpoint.loading import load
from eagerflow.checkpoint.manager import Manager, Restored
from eagerflow.checkpoint.saving import save

__all__ = ["Manager", "Restored", "load", "save"]


def __getattr__(name: str) -> object:
    """Word the error for a name that is not here, with the nearest one that is."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise _counterparts.unknown_name("eagerflow.checkpoint", name, globals())
