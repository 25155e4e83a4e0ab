"""The limited-memory BFGS method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import eagerflow as ef
from eagerflow.errors import DeviceError, hides_frames
from eagerflow.extending import (
    COUNT,
    NOT_NEGATIVE,
    hint_at,
    in_graph,
    is_traced,
    keep_together,
    one_of,
    put_state,
    require,
    undo_by,
)
from eagerflow.optim.line_search import Point, strong_wolfe
from eagerflow.optim.parameters import (
    VariableTree,
    check_real,
    named_variables,
    outline,
    working_dtype,
)
from eagerflow.types import DType

__all__ = ["LBFGS"]

#: curvatures below this are not taken into the history
_LEAST_CURVATURE = 1e-10


class _Iterate(NamedTuple):
    """The loop-carried values of a step: the present point, and the last iteration.

    Attributes:
        x: all variables in one vector.
        f: the loss, ``f64[]``.
        g: the gradient of the loss.
        direction: the search direction of the last iteration.
        t: the step length of the last iteration, ``f64[]``.
        g_before: the gradient before the last iteration.
        iterations: number of iterations of this step, ``i64[]``.
        evaluations: number of evaluations of the loss in this step, ``i64[]``.
        goes_on: whether there is another iteration.
    """

    x: ef.Tensor
    f: ef.Tensor
    g: ef.Tensor
    direction: ef.Tensor
    t: ef.Tensor
    g_before: ef.Tensor
    iterations: ef.Tensor
    evaluations: ef.Tensor
    goes_on: ef.Tensor


@final
class LBFGS:
    """The limited-memory BFGS method (Liu and Nocedal, 1989).

    For losses without noise: a step makes several iterations, each of which evaluates the loss
    again, so `step` takes a function, not gradients. The curvature is estimated from the last
    changes of variables and gradients. With ``line_search_fn="strong_wolfe"`` the step length of
    each iteration fulfils the strong Wolfe conditions (Nocedal and Wright, 2006, section 3.5).

    The state is variables, also ``2 * history_size`` vectors with the size of all variables
    together. In a traced function a step is a loop in the graph, and is traced once.

    Args:
        variables: a tree of variables: ``model.trainable``, a list, a dict, …; on one device.
        lr: step length of an iteration, or the first trial of the line search.
        max_iter: maximum number of iterations per step.
        max_eval: maximum number of evaluations of the loss per step; by default
            ``max_iter * 5 // 4``.
        tolerance_grad: a step ends where no element of the gradient is larger than this.
        tolerance_change: a step ends where no variable, or the loss, changes by more than this.
        history_size: number of changes kept.
        line_search_fn: None, or ``"strong_wolfe"``.

    Attributes:
        state: variables by name: the history in ``"changes"``, ``"yields"`` (changes of gradients)
            and ``"rho"``, and the numbers of iterations and evaluations so far in ``"n_iter"`` and
            ``"func_evals"``.

    Raises:
        TensorValueError: an option is out of its range, or ``variables`` is no tree of variables.
        DTypeError: a variable holds no real floating-point numbers.
        DeviceError: the variables are on several devices.

    >>> x = ef.Variable([-1.2, 1.0], dtype=ef.float64)
    >>> optimiser = ef.optim.LBFGS([x], max_iter=100, line_search_fn="strong_wolfe")
    >>> def rosenbrock():
    ...     return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> optimiser.step(rosenbrock)
    Tensor(24.2, f64[]@cpu:0)
    >>> ef.round(x, 3)
    Tensor([1., 1.], f64[2]@cpu:0)
    """

    def __init__(
        self,
        variables: VariableTree,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        named, _ = named_variables("LBFGS", variables)
        self._variables = tuple(named.values())
        device, dtype = _shared(named)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        require("LBFGS", COUNT, max_iter=max_iter, max_eval=max_eval, history_size=history_size)
        require("LBFGS", NOT_NEGATIVE, lr=lr, tolerance_grad=tolerance_grad)
        require("LBFGS", NOT_NEGATIVE, tolerance_change=tolerance_change)
        require("LBFGS", one_of(None, "strong_wolfe"), line_search_fn=line_search_fn)
        self.lr = lr
        self.max_iter = max_iter
        self.max_eval = max_eval
        self.tolerance_grad = tolerance_grad
        self.tolerance_change = tolerance_change
        self.history_size = history_size
        self.line_search_fn = line_search_fn
        size = sum(v.size for v in self._variables)
        shapes = {
            "direction": ((size,), dtype), "t": ((), ef.float64), "gradient": ((size,), dtype),
            "changes": ((history_size, size), dtype), "yields": ((history_size, size), dtype),
            "rho": ((history_size,), ef.float64), "scale": ((), ef.float64),
            "kept": ((), ef.int64), "first": ((), ef.int64), "n_iter": ((), ef.int64),
            "func_evals": ((), ef.int64),
        }  # fmt: skip
        self.state: dict[str, ef.Variable] = {}
        for name, (shape, kind) in shapes.items():
            start = ef.full(shape, 1 if name == "scale" else 0, dtype=kind, device=device)
            self.state[name] = ef.Variable(start, trainable=False, name=name)
        # while a step tries values in the variables: their values before
        self._before = ef.Variable(ef.zeros(size, dtype=dtype, device=device), trainable=False)
        self._begun = ef.Variable(False, trainable=False, device=device)
        keep_together(*self._variables, *self.state.values(), self._before, self._begun)
        undo_by(self._begun, self._undo)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Load the state of another optimiser of the same variables, all or none.

        Args:
            state: its `state`, with the same dtypes and shapes: tensors, arrays, variables.
            strict: whether ``state`` must have a value for each name and no other.

        Raises:
            CheckpointError: values are missing, unknown or do not fit; then nothing is assigned.

        >>> v = ef.Variable([1.0])
        >>> a, b = ef.optim.LBFGS([v]), ef.optim.LBFGS([v])
        >>> _ = a.step(lambda: (v * v).sum())
        >>> b.load_state(a.state)
        >>> int(b.state["func_evals"]) == int(a.state["func_evals"])
        True
        """
        put_state(self.state, {name: name for name in self.state}, state, strict, "LBFGS")

    @hides_frames
    def step(self, closure: Callable[[], ef.Tensor]) -> ef.Tensor:
        """Change the variables to make the loss smaller; returns the loss before.

        Args:
            closure: a function without arguments that returns the loss, a floating scalar. It is
                called several times, in a traced function as part of a loop.

        Raises:
            GradientError: the loss is not one real number. After an error, or Ctrl-C, the
                variables have their values from before, in a traced function as well, and the next
                step starts without history.

        >>> v = ef.Variable([3.0, -4.0])
        >>> optimiser = ef.optim.LBFGS([v])
        >>> optimiser.step(lambda: (v * v).sum())
        Tensor(25., f32[]@cpu:0)
        >>> ef.round(v, 3)
        Tensor([0., 0.], f32[2]@cpu:0)
        """
        x = self._flat([v.value for v in self._variables])
        try:
            begun = [self._before.assign(x), self._begun.assign(True)]
            with ef.control_dependencies(begun):
                loss, done = self._run(closure, x)
            with ef.control_dependencies(done):
                self._begun.assign(False)
        except BaseException:
            if not is_traced():
                self._undo()
            raise
        return loss

    def _undo(self) -> None:
        """After a step that failed, set the variables back."""
        if bool(self._begun.value):
            self._put(self._before.value)
            for name in ("kept", "n_iter"):
                self.state[name].assign(0)
            self._begun.assign(False)

    def _run(
        self, closure: Callable[[], ef.Tensor], x: ef.Tensor
    ) -> tuple[ef.Tensor, list[ef.Tensor]]:
        """The loss before, and the last assignments."""
        evaluate = ef.value_and_grad(in_graph(closure), wrt=list(self._variables))
        state = self.state
        loss: ef.Tensor
        loss, gradients = evaluate()
        g = self._flat(gradients)
        start = _Iterate(
            x, loss.astype(ef.float64), g, state["direction"].value, state["t"].value,
            state["gradient"].value, ef.zeros_like(state["n_iter"]),
            ef.ones_like(state["func_evals"]), _size(g) > self.tolerance_grad,
        )  # fmt: skip

        def objective(x: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
            self._put(x)
            loss, new_gradients = evaluate()
            return loss.astype(ef.float64), self._flat(new_gradients)

        end = ef.while_loop(
            lambda iterate: iterate.goes_on,
            lambda iterate: self._iteration(iterate, objective),
            start,
        )
        updates = {"direction": end.direction, "t": end.t, "gradient": end.g_before}
        done = [state[name].assign(value) for name, value in updates.items()]
        done.append(state["func_evals"].assign_add(end.evaluations))
        return loss, [*done, *self._put(end.x)]

    def _iteration(
        self, iterate: _Iterate, objective: Callable[[ef.Tensor], tuple[ef.Tensor, ef.Tensor]]
    ) -> _Iterate:
        count = self.state["n_iter"].assign_add(1)
        g = iterate.g
        ef.cond(count == 1, lambda: None, lambda: self._remember(iterate))
        d = self._direction(g)
        lr = ef.asarray(self.lr, dtype=ef.float64)
        t = ef.where(count == 1, ef.minimum(1.0, 1.0 / _f64(ef.abs(g).sum())) * lr, lr)
        slope = _f64(g @ d)
        iterate = iterate._replace(direction=d, t=t, g_before=g, iterations=iterate.iterations + 1)
        after: _Iterate = ef.cond(
            slope > -self.tolerance_change,
            lambda: iterate._replace(goes_on=ef.zeros_like(iterate.goes_on)),
            lambda: self._moved(iterate, slope, objective),
        )
        return after

    # --- the parts of an iteration ---

    def _remember(self, iterate: _Iterate) -> None:
        """Add the last change to the history if the curvature along it is positive."""
        state = self.state
        y = iterate.g - iterate.g_before
        s = iterate.direction * iterate.t.astype(y.dtype)
        curvature = y @ s

        def keep() -> None:
            kept, first = state["kept"].value, state["first"].value
            row = ((first + kept) % self.history_size)[None]
            state["changes"].scatter_update(row, s[None])
            state["yields"].scatter_update(row, y[None])
            state["rho"].scatter_update(row, _f64(1.0 / curvature)[None])
            state["scale"].assign(_f64(curvature / (y @ y)))
            full = kept == self.history_size
            state["first"].assign(ef.where(full, (first + 1) % self.history_size, first))
            state["kept"].assign(ef.where(full, kept, kept + 1))

        ef.cond(curvature > _LEAST_CURVATURE, keep, lambda: None)

    def _direction(self, g: ef.Tensor) -> ef.Tensor:
        """The estimated inverse of the Hessian times ``-g`` (algorithm 7.4 there)."""
        state = self.state
        s, y, rho = state["changes"].value, state["yields"].value, state["rho"].value
        kept, first, most = state["kept"].value, state["first"].value, self.history_size

        def back(n: ef.Tensor, q: ef.Tensor, alpha: ef.Tensor) -> tuple[ef.Tensor, ...]:
            i = (first + n) % most
            a = (s[i] @ q) * rho[i].astype(q.dtype)
            return n - 1, q - a * y[i], ef.where(ef.arange(most) == i, a, alpha)

        def forth(n: ef.Tensor, r: ef.Tensor) -> tuple[ef.Tensor, ...]:
            i = (first + n) % most
            b = (y[i] @ r) * rho[i].astype(r.dtype)
            return n + 1, r + (alpha[i] - b) * s[i]

        _, q, alpha = ef.while_loop(
            lambda n, q, alpha: n >= 0, back, (kept - 1, -g, ef.zeros(most, dtype=g.dtype))
        )
        r = q * state["scale"].value.astype(g.dtype)
        direction: ef.Tensor
        _, direction = ef.while_loop(lambda n, r: n < kept, forth, (ef.zeros_like(kept), r))
        return direction

    def _moved(
        self, iterate: _Iterate, slope: ef.Tensor,
        objective: Callable[[ef.Tensor], tuple[ef.Tensor, ef.Tensor]],
    ) -> _Iterate:  # fmt: skip
        """The iterate after a move along the direction: a fixed step length, or a line search."""
        x, d, before = iterate.x, iterate.direction, iterate.f
        last = iterate.iterations == self.max_iter

        def at(t: ef.Tensor) -> ef.Tensor:
            return x + d * t.astype(d.dtype)

        def on_line(t: ef.Tensor) -> tuple[Point, ef.Tensor]:
            f, g = objective(at(t))
            return Point(t, f, _f64(g @ d)), g

        if self.line_search_fn is None:
            x, t = at(iterate.t), iterate.t
            # the loss is not evaluated where its value is not used: it may differ from call to call
            f, g = ef.cond(last, lambda: (iterate.f, iterate.g), lambda: objective(x))
            asked = ef.where(last, 0, 1)
        else:
            start = Point(ef.zeros_like(iterate.t), iterate.f, slope)
            search = strong_wolfe(
                on_line, start, iterate.g, iterate.t,
                most=self.max_eval - iterate.evaluations,
                smallest=self.tolerance_change / _f64(_size(d)),
            )  # fmt: skip
            (t, f, _), g, asked = search
            x = at(t)
        evaluations = iterate.evaluations + asked
        stops = last | (evaluations >= self.max_eval) | (_size(g) <= self.tolerance_grad)
        stops |= _f64(_size(d * t.astype(d.dtype))) <= self.tolerance_change
        stops |= ef.abs(f - before) < self.tolerance_change
        return iterate._replace(x=x, f=f, g=g, t=t, evaluations=evaluations, goes_on=~stops)

    # --- variables as one vector ---

    def _flat(self, parts: Any) -> ef.Tensor:
        dtype = self.state["gradient"].dtype
        dense = [p.to_dense() if isinstance(p, ef.IndexedSlices) else p for p in parts]
        return ef.concat([p.reshape(-1).astype(dtype) for p in dense])

    def _put(self, x: ef.Tensor) -> list[ef.Tensor]:
        end, done = 0, []
        for v in self._variables:
            start, end = end, end + v.size
            done.append(v.assign(x[start:end].reshape(v.shape).astype(v.dtype)))
        return done

    def __repr__(self) -> str:
        return outline(self, self._variables)


# names of other frameworks; their replacements: `hints/optim.py`
hint_at(
    LBFGS, ["apply_gradients", "load_state_dict", "minimize", "state_dict", "update", "zero_grad"]
)


def _size(x: ef.Tensor) -> ef.Tensor:
    """The largest magnitude."""
    return ef.abs(x).max()


def _f64(x: ef.Tensor) -> ef.Tensor:
    return x.astype(ef.float64)


# --- checks -------------------------------------------------------------------------------------


def _shared(variables: Mapping[str, ef.Variable]) -> tuple[Any, DType]:
    """The device of the variables, and the dtype of the vector that they become."""
    first = next(iter(variables.values()))
    dtype = working_dtype(first)
    for path, v in variables.items():
        check_real("LBFGS", path, v)
        if v.device is not first.device:
            raise DeviceError(
                "LBFGS: the variables are on several devices",
                given=f"{path} on {v.device}, others on {first.device}",
            )
        dtype = ef.result_type(dtype, v.dtype)
    return first.device, dtype
