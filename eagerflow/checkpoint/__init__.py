"""Checkpoints: ``ef.checkpoint``.

A checkpoint is a folder: safetensors files with the elements of tensors, and ``manifest.json``
with the rest. It is complete or it is not there, and every byte of it is covered by a checksum.
"""

from eagerflow.checkpoint.loading import load
from eagerflow.checkpoint.manager import Manager, Restored
from eagerflow.checkpoint.saving import save
from eagerflow.extending import unknown_name as _unknown_name

__all__ = ["Manager", "Restored", "load", "save"]


def __getattr__(name: str) -> object:
    """Word the error for a name that is not here, with the nearest name that is."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise _unknown_name("eagerflow.checkpoint", name, globals())
