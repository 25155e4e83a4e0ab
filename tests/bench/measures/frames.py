"""Files of the package that a call passes through, each call in a fresh process.

All modules are loaded and each mechanism has run once, with another function: nothing that is
counted is loaded on the way or inherited from a cache by function. The garbage collector rests,
since its callbacks would come at any time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from tests.bench.measures.checkout import Checkout

#: by the name of the call, a warm-up call and the call that is measured
CALLS: Final = {
    "a cold traced call of three ops": ("ef.trace(warm)(x)", "ef.trace(three)(x)"),
    "a gradient of three ops, eager": ("ef.grad(warm)(x)", "ef.grad(three)(x)"),
    "a `while` on a tensor, traced, cold": ("ef.trace(warm_loop)(x)", "ef.trace(loop)(x)"),
}

_FUNCTIONS = """
import eagerflow as ef


def warm(x):
    return (ef.cos(x) + x).mean()


def three(x):
    return (ef.sin(x) * x).sum()


def warm_loop(x):
    while x.min() < 3.0:
        x = x + 2.0
    return x


def loop(x):
    while x.sum() < 10.0:
        x = x * 2.0
    return x
"""

_LOOK = """
import gc, importlib, json, sys, threading
folder, before_it, call, modules, functions = sys.argv[1:]
import eagerflow as ef
for name in modules.split():
    try:
        importlib.import_module(name)
    except ImportError:  # of a package that is not installed
        pass
sys.path.insert(0, functions)
from functions_to_call import *
x = ef.ones(3)
for f in (three, loop):  # eager: families and kernels of these ops are loaded
    f(x)
eval(before_it)
gc.collect()
gc.disable()
before, seen = {*sys.modules}, {}

def look(frame, event, _):
    if event == "call":
        code = frame.f_code
        if code.co_filename.startswith(folder):
            key = code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else (
                code.co_name, code.co_firstlineno)
            seen[key] = seen.get(key, 0) + 1

code = compile(call, "<call>", "eval")
threading.setprofile(look)
sys.setprofile(look)
try:
    eval(code)
finally:
    sys.setprofile(None)
    threading.setprofile(None)
print(json.dumps({
    "files": sorted({file.removeprefix(folder) for file, _ in seen}),
    "functions": len(seen),
    "calls": sum(seen.values()),
    "loaded": sorted({*sys.modules} - before),
}))
"""


def frames(checkout: Checkout) -> dict[str, Any]:
    """By call: the files with a frame, numbers of functions and calls, and modules loaded late."""
    left_out = {"__main__", "cli", "demo"}
    modules = [m.name for m in checkout.of("eagerflow") if not {*m.name.split(".")} & left_out]
    package = f"{checkout.packages['eagerflow']}/"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "functions_to_call.py").write_text(_FUNCTIONS)
        return {
            name: checkout.run(_LOOK, package, warm, call, " ".join(modules), folder)
            for name, (warm, call) in CALLS.items()
        }
