"""The base class of optimisers: variables with accumulators, the learning rate, the update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import eagerflow as ef
from eagerflow.errors import ShapeError, hides_frames
from eagerflow.extending import (
    NOT_NEGATIVE,
    TensorLike,
    hint_at,
    in_graph,
    in_range,
    keep_together,
    put_state,
    require,
)
from eagerflow.hardware import beside
from eagerflow.optim.parameters import (
    Parameter,
    Parameters,
    PerVariable,
    Rows,
    VariableTree,
    check_real,
    named_variables,
    outline,
    per_variable,
    working_dtype,
)

#: a learning rate: a number, or a schedule: a function from the number of updates done
Rate: TypeAlias = float | ef.Tensor | ef.Variable | Callable[[ef.Tensor], TensorLike]
Accumulators: TypeAlias = Sequence[Rows]
#: state kept once per optimiser, beside the first parameter
_COUNTS: Final = ("counts", "count")

#: dtype of the scalars beside a complex variable
_REAL: Final = {"complex64": ef.float32, "complex128": ef.float64}


class AbstractOptimiser(ABC):
    """Base class of optimisers, which change variables against gradients of a loss.

    The state is variables on the devices of the parameters, made at construction, so `update`
    is plain Python over variables: it runs eagerly, or as part of a traced step, and causes no
    retrace. State of variables of 16 bits is float32.

    Attributes:
        lr: the learning rate, a number or a schedule; may be set between updates. Its value is
            `current_lr`.
        count: the number of updates done, an int64 variable.
        state: `count` and the accumulators by name, such as ``"exp_avg.layers.0.weight"``; where
            the formula has the number of an update, also ``"counts"``: for each variable, in
            order, the number of updates in which it had a gradient.

    >>> optimiser = ef.optim.Adam([ef.Variable(0.0)], lr=0.1)
    >>> isinstance(optimiser, ef.optim.AbstractOptimiser), optimiser.lr, list(optimiser.state)
    (True, 0.1, ['exp_avg.0', 'exp_avg_sq.0', 'counts', 'count'])
    """

    if TYPE_CHECKING:  # a setter takes any rate; most readers treat the rate as a number

        @property
        def lr(self) -> Any: ...
        @lr.setter
        def lr(self, value: Rate) -> None: ...

    #: whether a sparse gradient changes only its rows; else it is made dense
    _by_rows: bool = False
    #: whether rows that occur twice may be taken one after the other
    _additive: bool = False
    _complex: bool = False
    #: whether weight decay bypasses the accumulators and changes the variable directly
    _decoupled: bool = False
    #: whether the scalars of an update depend on the number of updates of the variable
    _counted: bool = False

    def __init__(
        self,
        variables: VariableTree,
        lr: Rate,
        weight_decay: PerVariable,
        lr_scale: PerVariable,
        accumulators: Mapping[str, float],
    ) -> None:
        what = type(self).__name__
        if not (callable(lr) or isinstance(lr, (ef.Tensor, ef.Variable))):
            require(what, NOT_NEGATIVE, lr=lr)
        named, treedef = named_variables(what, variables)
        self.lr = lr
        self.weight_decay = weight_decay
        parameters = []
        self.state: dict[str, ef.Variable] = {}
        for i, (path, v) in enumerate(named.items()):
            decay = per_variable(f"{what}: weight_decay", weight_decay, path, v)
            scale = per_variable(f"{what}: lr_scale", lr_scale, path, v)
            made = self._accumulators(path, v, accumulators)
            keep_together(v, *made.values())
            self.state.update(made)
            dtype = working_dtype(v)
            parameters.append(Parameter(i, path, v, tuple(made.values()), dtype, decay, scale))
        self._parameters = Parameters(tuple(parameters), treedef)
        first = parameters[0].variable
        device = first.device
        if self._counted:
            zeros = ef.zeros(len(parameters), dtype=ef.int64, device=device)
            self.state["counts"] = ef.Variable(zeros, trainable=False, name="counts")
        self.count = ef.Variable(0, dtype=ef.int64, device=device, trainable=False, name="count")
        self.state["count"] = self.count
        keep_together(first, *[self.state[name] for name in _COUNTS if name in self.state])

    @property
    def parameters(self) -> Parameters:
        """The variables with their options and state: for classes that wrap optimisers.

        >>> len(ef.optim.SGD([ef.Variable(0.0)], lr=0.1).parameters)
        1
        """
        return self._parameters

    @property
    def current_lr(self) -> ef.Tensor:
        """The learning rate of the next update, ``f64[]``: of a schedule, its value now.

        Before `update` it is the rate that the update will have, without ``lr_scale``.

        Raises:
            TensorValueError: the rate is negative or NaN (if traced: raised at run time).

        >>> schedule = ef.optim.StepSchedule(0.5, step_size=1, gamma=0.5)
        >>> optimiser = ef.optim.SGD([ef.Variable(0.0)], lr=schedule)
        >>> float(optimiser.current_lr)
        0.5
        >>> optimiser.update([ef.tensor(1.0)])
        >>> f"{optimiser.current_lr:.3f}"
        '0.250'
        """
        with beside(self.count):
            return self._rate(self.lr)

    def _accumulators(
        self, path: str, v: ef.Variable, wanted: Mapping[str, float]
    ) -> dict[str, ef.Variable]:
        """The accumulators of a variable, by name."""
        if not self._complex:
            check_real(type(self).__name__, path, v)
        made = {}
        for kind, first in wanted.items():
            name = f"{kind}.{path}" if path else kind
            value = ef.full(v.shape, first, dtype=working_dtype(v), device=v.device)
            made[name] = ef.Variable(value, trainable=False, name=name)
        return made

    @hides_frames
    def update(self, gradients: object, lr: Rate | None = None) -> None:
        """Change the variables, once.

        Values of gradients are not looked at: a NaN becomes one of the variable and its state, and
        of all later losses. ``ef.config(check_nan=True)`` raises at the op that makes the first
        one; an update can be left out by the norm that clipping computes anyway, as below.

        Args:
            gradients: a tree of the structure of the variables; its leaves are tensors,
                `IndexedSlices`, or None for a variable that stays as it is. Those of a list belong
                to the variables by their order alone. In a dict, such as ``net.trainable``, they
                belong to them by name: their order does not matter, and other names are refused.
            lr: the learning rate of this update, in place of the attribute.

        Raises:
            TensorValueError: the structure differs, or the learning rate is negative or NaN (if
                traced: raised at run time).
            ShapeError: a gradient does not have the shape of its variable.
            DTypeError: a gradient has another kind of dtype.
            TensorIndexError: a sparse gradient has a row that its variable does not have (if
                traced: raised at run time).
            DeviceError: a gradient is on another device than its variable. Nothing has been
                changed in any of these cases.

        >>> v = ef.Variable([1.0, 2.0])
        >>> optimiser = ef.optim.SGD([v], lr=0.5)
        >>> optimiser.update([ef.tensor([1.0, -1.0])])
        >>> v
        Variable([0.5, 2.5], f32[2]@cpu:0)
        >>> grads, norm = ef.optim.clip_by_global_norm([ef.tensor([float("nan"), 1.0])], 1.0)
        >>> ef.cond(ef.isfinite(norm), lambda: optimiser.update(grads), lambda: None)
        >>> v
        Variable([0.5, 2.5], f32[2]@cpu:0)
        """
        pairs = self._parameters.match(gradients)
        with beside(self.count):
            rate = self._rate(self.lr if lr is None else lr)
            n = self.count.assign_add(1)
            scalars = self._numbers([p for p, _ in pairs], rate, n)
        for p, g in pairs:
            with ef.name_scope(p.path or "variable"), beside(p.variable):
                self._apply(p, g, scalars[p.position])

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Load the state of another optimiser of the same kind, all or none.

        Args:
            state: its `state`, with the same dtypes and shapes: tensors, arrays, variables.
            strict: whether ``state`` must have a value for each name and no other.

        Raises:
            CheckpointError: values are missing, unknown or do not fit; then nothing is assigned.

        >>> v = ef.Variable([1.0])
        >>> a, b = ef.optim.Adam([v]), ef.optim.Adam([v])
        >>> a.update([ef.tensor([1.0])])
        >>> b.load_state(a.state)
        >>> b.count.value
        Tensor(1, i64[]@cpu:0)
        """
        put_state(
            self.state, {name: name for name in self.state}, state, strict, type(self).__name__
        )

    # --- the formula of an optimiser ---

    def _scalars(self, lr: ef.Tensor, n: ef.Tensor) -> tuple[ef.Tensor, ...]:
        """The scalars of an update, in float64: the learning rate and values derived from it.

        Args:
            lr: ``f64[]``.
            n: ``f64[]``, the number of this update, from 1; where the class is counted, ``f64[P]``:
                the number for each of ``P`` variables; results may have that shape, too.
        """
        return (lr,)

    @abstractmethod
    def _change(self, g: ef.Tensor, accumulators: Accumulators, *scalars: ef.Tensor) -> ef.Tensor:
        """Update the accumulators; returns the change to subtract from the variable.

        Args:
            g: the gradient.
            accumulators: in the order of their names.
            scalars: the results of `_scalars`, in the dtype of the gradient.
        """

    # --- the parts of an update ---

    def _rate(self, lr: Any) -> ef.Tensor:
        if callable(lr):
            lr = in_graph(lr)(self.count.value)
        device = self.count.device
        rate = ef.asarray(lr, dtype=ef.float64, device=device)
        if rate.ndim:
            raise ShapeError("update: the learning rate is one number", given=str(rate.type))
        refusal = "update: the learning rate is negative or NaN"
        checked: ef.Tensor = in_range(rate, "scale", refusal, rate, dtype=ef.float64, on=device)
        return checked

    def _numbers(
        self, parameters: list[Parameter], rate: ef.Tensor, n: ef.Tensor
    ) -> dict[int, tuple[ef.Tensor, ...]]:
        """The results of `_scalars` for each of these parameters, by position."""
        groups: dict[Any, list[Parameter]] = {}
        for p in parameters:
            groups.setdefault((p.dtype.name, p.variable.device, p.scale), []).append(p)
        if self._counted and parameters:
            n = self._counts([p.position for p in parameters])
        n = n.astype(ef.float64)
        made: dict[int, tuple[ef.Tensor, ...]] = {}
        for group in groups.values():
            each = n
            if n.ndim and len(group) < len(self._parameters):
                each = ef.take(n, ef.tensor([p.position for p in group], device=n.device), axis=0)
            made.update(self._placed(group, rate, each))
        return made

    def _counts(self, positions: list[int]) -> ef.Tensor:
        """Increment the counts of these parameters; returns the counts of all."""
        counts = self.state["counts"]
        if len(positions) == len(self._parameters):
            return counts.assign_add(1)
        return counts.scatter_add(ef.tensor(positions, device=counts.device), 1)

    def _placed(
        self, group: list[Parameter], rate: ef.Tensor, n: ef.Tensor
    ) -> dict[int, tuple[ef.Tensor, ...]]:
        """The scalars in the dtype and on the device of a group of parameters."""
        p = group[0]
        dtype = _REAL.get(p.dtype.name, p.dtype)
        scaled = rate if p.scale == 1 else rate * p.scale
        numbers = [x.astype(dtype).to(p.variable.device) for x in self._scalars(scaled, n)]
        # computed together and then split: many ops on single numbers would be slow
        with beside(p.variable):
            columns = [ef.unstack(x) if x.ndim else [x] * len(group) for x in numbers]
        rows = zip(*columns, strict=True)
        return {one.position: row for one, row in zip(group, rows, strict=True)}

    def _apply(self, p: Parameter, g: Any, scalars: tuple[ef.Tensor, ...]) -> None:
        v = p.variable
        if not (isinstance(g, ef.IndexedSlices) and self._by_rows):
            v.assign_sub(self._step(p, None, ef.asarray(g), scalars))
            return
        if not self._additive or p.decay:
            g = g.coalesce()
        v.scatter_add(g.indices, -self._step(p, g.indices, g.values, scalars))

    def _step(
        self, p: Parameter, rows: ef.Tensor | None, g: ef.Tensor, scalars: tuple[ef.Tensor, ...]
    ) -> ef.Tensor:
        """The change to subtract from the variable, or from these rows, weight decay included."""
        target = Rows(p.variable, rows)
        if p.decay and not self._decoupled:
            g = g + target.value.astype(p.dtype) * p.decay
        change = self._change(g, [Rows(x, rows) for x in p.accumulators], *scalars)
        if p.decay and self._decoupled:
            change = change + target.value.astype(p.dtype) * (scalars[0] * p.decay)
        return change if p.dtype is p.variable.dtype else change.astype(p.variable.dtype)

    def __repr__(self) -> str:
        return outline(self, [p.variable for p in self._parameters])


#: names of other frameworks; their replacements: `hints/optim.py`
_HINTED: Final = """
    add_param_group apply_gradients get_last_lr get_lr global_step iterations learning_rate
    load_state_dict minimize num_updates param_groups state_dict step steps variables zero_grad
"""
hint_at(AbstractOptimiser, _HINTED.split())
