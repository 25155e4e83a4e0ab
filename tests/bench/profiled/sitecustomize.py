"""Hook by which a process started by a measurement can be profiled (`tests.bench.profiles`).

Python imports this by itself where its folder is in ``PYTHONPATH``.
"""

from tests.bench.profiles import listen

listen()
