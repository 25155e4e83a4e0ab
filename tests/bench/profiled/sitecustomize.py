"""Lets a process that a measurement starts be profiled (`tests.bench.profiles`).

Python imports this by itself where its folder is in ``PYTHONPATH``.
"""

from tests.bench.profiles import listen

listen()
