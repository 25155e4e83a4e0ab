"""What other frameworks call the things of `eagerflow.nn`, and what is written here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FrameType
from typing import Final, TypeVar

from eagerflow.errors import UnknownNameError

__all__ = ["MODULES", "NN", "never_called"]

_S = TypeVar("_S")
_R = TypeVar("_R")

_PLACE: Final = "make it where it shall be: with ef.device('gpu:0'): ..."
_LOOP: Final = (
    "the loop is written out: loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y); "
    "optimiser.update(grads)"
)
_SAVE: Final = "ef.checkpoint.save(path, net) and ef.checkpoint.load(path, like=net)"
_FREEZE: Final = "net.freeze() and net.unfreeze(); net.trainable has what is not frozen"
_VALUES: Final = "gradients are values that ef.value_and_grad gives, none is kept that could add up"

#: of ``ef.nn``, what is no class here
NN: Final = {
    "BCELoss": "use the function ef.nn.functional.binary_cross_entropy",
    "BCEWithLogitsLoss": "use the function ef.nn.functional.binary_cross_entropy_with_logits",
    "Dense": "use ef.nn.Linear",
    "ModuleDict": "a plain dict of modules will do",
    "ModuleList": "a plain list of modules will do",
    "Parameter": "assign an ef.Variable to an attribute",
    "ParameterDict": "a plain dict of variables will do",
    "ParameterList": "a plain list of variables will do",
    "Upsample": "use the function ef.nn.functional.interpolate",
    "ZeroPad2d": "use the function ef.nn.functional.pad",
    "utils": "ef.optim.clip_by_global_norm(grads, max_norm) clips gradients",
}

#: of modules
MODULES: Final = {
    "add_module": "set it as an attribute: self.name = module",
    "apply": "for path, module in net.modules(): ...",
    "children": "net.modules() gives the path and the module of all below",
    "compile": _LOOP,
    "cpu": _PLACE,
    "cuda": _PLACE,
    "evaluate": "call the net in its mode for use: net.eval()(x)",
    "fit": _LOOP,
    "get_weights": "net.state gives its variables by path",
    "load_state_dict": "net.load_state(state)",
    "load_weights": _SAVE,
    "named_buffers": "net.buffers is a dict: net.buffers.items()",
    "named_children": "net.modules() gives the path and the module of all below",
    "named_modules": "net.modules()",
    "named_parameters": "net.parameters is a dict: net.parameters.items()",
    "predict": "call the net in its mode for use: net.eval()(x)",
    "register_buffer": "set it as an attribute: self.name = ef.Variable(value, trainable=False)",
    "register_parameter": "set it as an attribute: self.name = ef.Variable(value)",
    "requires_grad_": _FREEZE,
    "save": _SAVE,
    "save_weights": _SAVE,
    "set_weights": "net.load_state(state)",
    "state_dict": "net.state is a dict of its variables",
    "to": _PLACE,
    "trainable_variables": "net.trainable",
    "trainable_weights": "net.trainable",
    "variables": "net.state",
    "weights": "net.state",
    "zero_grad": _VALUES,
}


def never_called(getter: Callable[[_S], _R]) -> Callable[[_S], _R]:
    """Let the error for a property say so that is called as if it were a method.

    Python would say that a dict cannot be called. The getter runs before the call, but can look at
    the instruction that reads the attribute; where that does not tell, Python's error remains.

    Args:
        getter: of the property; it gives a dict of variables by path.
    """
    name = getter.__name__

    @wraps(getter)
    def get(self: _S) -> _R:
        if _is_called(sys._getframe(1)):
            raise UnknownNameError(
                f"{type(self).__name__} has no method {name!r}",
                hint=f"{name} is a dict of variables by path: leave out the brackets; "
                f"{name}.values() gives the variables alone",
            )
        return getter(self)

    return get


def _is_called(frame: FrameType) -> bool:
    """Whether the attribute that ``frame`` is about to read is called at once: ``x.name()``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    method = opmap.get("LOAD_METHOD", 256)
    if method < 256:  # greater numbers are the compiler's own
        return code[at] == method
    return code[at] == opmap["LOAD_ATTR"] and bool(code[at + 1] & 1)  # since Python 3.12
