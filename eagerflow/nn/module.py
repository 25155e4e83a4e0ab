"""`Module`: the base class of layers and models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, Self, TypeVar

import eagerflow as ef
from eagerflow.errors import UnknownNameError, hide_frames, hides_frames
from eagerflow.extending import hint_at, is_traced, note_set, put_state, walk
from eagerflow.nn.module_calls import call
from eagerflow.nn.module_text import outline
from eagerflow.nn.properties import keeping_variables, never_called
from eagerflow.nn.summary import Summary, summarise
from eagerflow.nn.trace_assumptions import made, note_modules, note_walk

_M = TypeVar("_M", bound="Module")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class _Forward(Protocol[_P, _R_co]):
    """A module, for type checkers: a call has the signature of ``forward``."""

    def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


class Module:
    """The base class of layers and models: subclass it, set attributes, and write ``forward``.

    Variables and other modules are found wherever attributes hold them, also in lists, tuples,
    dicts and dataclasses, in the order in which the attributes were set; no registration is
    needed, nor a call of ``super().__init__``. Their names are paths, such as
    ``"layers.0.weight"``. Variables that are not trainable are *buffers*, such as running means.

    In a traced function, attributes are guarded as those of any object: a trace is used as long
    as they are unchanged; modules are the boxes of its picture. Where the function reads
    `trainable`, `state` or `modules`, all contents of the module are guarded.

    Attributes:
        training: whether dropout is active and batch norms use the batch; see `train` and `eval`.
        frozen: whether `trainable` leaves out the variables that this module holds itself; see
            `freeze`.

    >>> class Classifier(ef.nn.Module):
    ...     def __init__(self, inputs, classes):
    ...         self.layers = [ef.nn.Linear(inputs, 16), ef.nn.Linear(16, classes)]
    ...     def forward(self, x):
    ...         hidden, output = self.layers
    ...         return output(ef.maximum(hidden(x), 0))
    >>> model = Classifier(64, 10)
    >>> model(ef.zeros((2, 64))).shape
    (2, 10)
    >>> list(model.trainable)
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    """

    training: bool
    frozen: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # here, so that subclasses need not call __init__; in the instance, so that traces see them
        return made(cls, training=True, frozen=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; subclasses define it, and users call the module itself."""
        name = type(self).__name__
        raise UnknownNameError(
            f"{name} has no forward",
            given=f"a call of {name}",
            expected="a method forward that computes the output",
            hint=f"write class {name}(ef.nn.Module): ... def forward(self, x): ...",
        )

    def __call__(self: _Forward[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call `forward`; in a trace its nodes are in a scope named after the module."""
        try:
            if is_traced():
                result: _R = call(self, Module, args, kwargs)
                return result
            return self.forward(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    if not TYPE_CHECKING:  # else checkers would accept assignments to any name
        __setattr__ = keeping_variables

    # --- contents ---

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once.

        >>> model = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 1))
        >>> [module for module in model.modules() if isinstance(module, ef.nn.Linear)]
        [Linear(2, 3), Linear(3, 1)]
        """
        return (module for _, module in self.named_modules())

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Pairs of path and module: this module (path ``""``) and all below it, each once.

        >>> model = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 1))
        >>> [path for path, _ in model.named_modules()]
        ['', 'layers.0', 'layers.1']
        """
        note_modules(self, Module)
        return _modules(self)

    @property
    @never_called
    def state(self) -> dict[str, ef.Variable]:
        """All variables by path, each once: the contents of a checkpoint.

        Equal paths, as of keys 1 and "1", are distinguished by a number: ``"layers.1~2"``.

        >>> list(ef.nn.Linear(2, 3).state)
        ['weight', 'bias']
        """
        note_walk(self, Module)
        return {path: value for path, value, _ in _variables(self).values()}

    @property
    @never_called
    def parameters(self) -> dict[str, ef.Variable]:
        """The variables that can be trained, by path, frozen variables included.

        >>> list(ef.nn.BatchNorm(3).parameters)
        ['weight', 'bias']
        """
        return {path: value for path, value in self.state.items() if value.trainable}

    @property
    @never_called
    def buffers(self) -> dict[str, ef.Variable]:
        """The variables that are not trained, by path.

        >>> list(ef.nn.BatchNorm(3).buffers)
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return {path: value for path, value in self.state.items() if not value.trainable}

    @property
    @never_called
    def trainable(self) -> dict[str, ef.Variable]:
        """The variables to train, by path: the parameters that are not frozen.

        A variable that several modules hold is frozen if one of these modules is.

        >>> model = ef.nn.Linear(2, 1)
        >>> loss = ef.value_and_grad(lambda x: model(x).sum(), wrt=model.trainable)
        >>> sorted(loss(ef.ones((1, 2)))[1])
        ['bias', 'weight']
        """
        note_walk(self, Module, "frozen")
        return {
            path: value
            for path, value, owners in _variables(self).values()
            if value.trainable and not any(owner.frozen for owner in owners)
        }

    # --- modes ---

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` here and in all modules below; returns the module.

        >>> ef.nn.Sequential(ef.nn.Dropout(0.1)).eval().train().layers[0].training
        True
        """
        return _flagged(self, "training", mode)

    def eval(self) -> Self:
        """``train(False)``: the mode for using a trained model.

        >>> ef.nn.Dropout(0.5).eval()(ef.ones(2))
        Tensor([1., 1.], f32[2]@cpu:0)
        """
        return self.train(False)

    def freeze(self) -> Self:
        """Leave all variables here and in modules below out of `trainable`; returns the module.

        Buffers are not affected: to keep batch norms from changing their running statistics, call
        `eval` on them. A gradient function keeps the variables that it was made for: make it anew.

        >>> model = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 1))
        >>> _ = model.layers[0].freeze()
        >>> list(model.trainable)
        ['layers.1.weight', 'layers.1.bias']
        """
        return _flagged(self, "frozen", True)

    def unfreeze(self) -> Self:
        """Undo `freeze`, here and in all modules below; returns the module.

        >>> list(ef.nn.Linear(2, 3).freeze().unfreeze().trainable)
        ['weight', 'bias']
        """
        return _flagged(self, "frozen", False)

    # --- state and text ---

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Assign values to the variables, all or none.

        Args:
            state: values by path, of the dtypes and shapes of the variables: tensors, arrays,
                variables, as in the `state` of another module.
            strict: whether ``state`` must have a value for each variable and no other.

        Raises:
            CheckpointError: values are missing, unknown or do not fit, or a variable with two
                paths gets two values; then nothing is assigned.

        >>> model, copy = ef.nn.Linear(2, 3), ef.nn.Linear(2, 3)
        >>> copy.load_state(model.state)
        >>> bool((copy.weight == model.weight).all())
        True
        """
        known = {path: value for path, value, _ in walk(self, Module)}
        first = {id(value): path for path, value in self.state.items()}
        names = {path: first[id(value)] for path, value in known.items() if id(value) in first}
        put_state(self.state, names, state, strict, type(self).__name__)

    @hides_frames
    def summary(self, *args: Any, **kwargs: Any) -> Summary:
        """A table of the modules: output type, parameters, bytes.

        Args:
            args: example inputs, of which only the types matter: the model is traced with them
                and not run, so nothing is computed and no state changes. Without example inputs the
                table has no output types.
            kwargs: example inputs given by name.

        >>> model = ef.nn.Sequential(ef.nn.Linear(64, 16), ef.nn.Linear(16, 10))
        >>> model.summary(ef.zeros((8, 64)))
        layer       class       output      parameters     bytes
                    Sequential  f32[8,10]            0       0 B
          layers.0  Linear      f32[8,16]        1,040  4,160 B
          layers.1  Linear      f32[8,10]          170     680 B
        1,210 parameters (4,840 B), all trainable
        """

        def run(*args: Any, **kwargs: Any) -> None:  # in user code to traces, which undo changes
            self(*args, **kwargs)

        return summarise(self, Module, run, args, kwargs)

    def __repr__(self) -> str:
        return outline(self, Module)


#: names of other frameworks; their replacements: `hints/nn.py`
_HINTED: Final = """
    add_module append apply bfloat16 children compile cpu cuda double evaluate extend fit float
    get_buffer get_parameter get_submodule get_weights half load_state_dict load_weights
    named_buffers named_children named_parameters predict register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_module
    register_parameter requires_grad_ save save_weights set_weights state_dict to
    trainable_variables trainable_weights variables weights zero_grad
"""
hint_at(Module, _HINTED.split())


def _modules(module: Module) -> Iterator[tuple[str, Module]]:
    return ((path, value) for path, value, _ in walk(module, Module) if isinstance(value, Module))


def _flagged(module: _M, flag: str, value: bool) -> _M:
    """Set a flag here and in all modules below; returns the module."""
    note_walk(module, Module)
    for _, part in _modules(module):
        note_set(part, flag)
        setattr(part, flag, value)
    return module


def _variables(module: Module) -> dict[int, tuple[str, ef.Variable, list[Module]]]:
    """Each variable once, by id: its first path and the modules that hold it."""
    variables: dict[int, tuple[str, ef.Variable, list[Module]]] = {}
    for path, value, owner in walk(module, Module):
        if isinstance(value, ef.Variable):
            variables.setdefault(id(value), (path, value, []))[2].append(owner)
    return variables
