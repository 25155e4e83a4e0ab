"""Special kernels for the CPU, faster than NumPy's functions.

Each module registers its kernels when it is imported.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
