"""Checkpoints: ``ef.checkpoint``.

A checkpoint is a folder: safetensors files with the elements of tensors, and ``manifest.json``
with the rest. It is either complete or absent, and every byte of it is covered by a checksum.
"""

from eagerflow.checkpoint.loading import load
from eagerflow.checkpoint.manager import Manager, Restored
from eagerflow.checkpoint.saving import save
from eagerflow.extending import module_dir as _module_dir
from eagerflow.extending import module_getattr as _module_getattr

__all__ = ["Manager", "Restored", "load", "save"]

__getattr__ = _module_getattr("eagerflow.checkpoint", globals())
__dir__ = _module_dir(globals())
