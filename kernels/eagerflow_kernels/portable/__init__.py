"""Portable kernels: the meaning of each op, written once against the array namespace ``xp``.

Each module registers its kernels when it is imported.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
