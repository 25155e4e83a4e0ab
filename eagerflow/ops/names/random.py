"""Random numbers: ``ef.random``.

A draw is Philox(seed, ticket, element): a generator has a seed and gives each draw a ticket, in
program order; the draw is a pure function of that key (defined by the kernels). So draws are the
same on every device and tier, and never depend on other threads with other generators. Elements
are counted in C order.

float32 and narrower dtypes use 32 random bits per element (float16 and bfloat16 are float32 draws,
truncated by `uniform`, rounded by other functions), float64 uses 64 bits: for the same seed the
numbers differ. Continuous draws are reparameterised: gradients flow to ``loc``, ``scale``, ``low``
and ``high``.

Parameters out of range (a negative scale, a probability of 2, ``low > high``, logits of NaN) are
errors, also in tensors in host memory. Tensors on accelerators are not checked, since a draw would
have to wait for them; only `randint` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, final

from eagerflow.core.interpreter import is_traced
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TensorValueError, TraceError
from eagerflow.ops.random.continuous import (
    exponential,
    gumbel,
    normal,
    truncated_normal,
    uniform,
)
from eagerflow.ops.random.discrete import bernoulli, bits, categorical, permutation, randint
from eagerflow.ops.random.draws import default_state
from eagerflow.ops.random.draws import set_state as _set_state
from eagerflow.ops.random.likes import normal_like, randint_like, uniform_like
from eagerflow.ops.random.rejection import beta, dirichlet, gamma, poisson
from eagerflow.resources.generator import GeneratorState
from eagerflow.unknown_names import hint_at, module_dir, module_getattr

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "default_generator",
    "dirichlet",
    "exponential",
    "gamma",
    "gumbel",
    "normal",
    "normal_like",
    "permutation",
    "poisson",
    "randint",
    "randint_like",
    "seed",
    "truncated_normal",
    "uniform",
    "uniform_like",
]

_P = ParamSpec("_P")


def _method(
    function: Callable[_P, Tensor],
) -> Callable[Concatenate[Generator, _P], Tensor]:
    """The public function as a method, which draws from the generator."""

    @wraps(function)
    def method(self: Generator, /, *args: _P.args, **kwargs: _P.kwargs) -> Tensor:
        kwargs["generator"] = self
        return function(*args, **kwargs)

    return method


@final
class Generator:
    """An independent source of random numbers, with the functions of ``ef.random`` as methods.

    Draws take tickets in order, safely from several threads; for numbers that do not depend on
    the timing of threads, give each thread a generator of its own.

    Args:
        seed: 0 to 2**64 - 1; by default taken from the operating system.

    >>> g = ef.random.Generator(7)
    >>> state = g.state
    >>> x = g.normal((3,))
    >>> g.state = state
    >>> bool((g.normal((3,)) == x).all())
    True
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, seed: int | None = None) -> None:
        self._state = GeneratorState(seed)
        if seed is not None and is_traced():
            _set_state(self._state, seed)  # each run of the graph sets it again

    @property
    def state(self) -> dict[str, int]:
        """The seed and the ticket of the next draw; may be set, to continue from there."""
        if is_traced():
            raise TraceError(
                "the state of a generator is known only when the graph runs",
                hint="read it outside of the traced function",
            )
        seed, ticket = self._state.get()
        return {"seed": seed, "ticket": ticket}

    @state.setter
    def state(self, value: dict[str, int]) -> None:
        if not isinstance(value, dict) or set(value) != {"seed", "ticket"}:
            raise TensorValueError(
                "the value is not the state of a generator",
                given=repr(value),
                expected="{'seed': …, 'ticket': …}",
            )
        _set_state(self._state, value["seed"], value["ticket"])

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continue from the state of a generator, as modules and optimisers do from theirs.

        Args:
            state: the `state` of this or another generator.

        Raises:
            TensorValueError: it is no such state.

        >>> a, b = ef.random.Generator(7), ef.random.Generator(8)
        >>> b.load_state(a.state)
        >>> b
        Generator(seed=7, ticket=0)
        """
        self.state = dict(state) if isinstance(state, Mapping) else state

    bernoulli = _method(bernoulli)
    beta = _method(beta)
    bits = _method(bits)
    categorical = _method(categorical)
    dirichlet = _method(dirichlet)
    exponential = _method(exponential)
    gamma = _method(gamma)
    gumbel = _method(gumbel)
    normal = _method(normal)
    normal_like = _method(normal_like)
    permutation = _method(permutation)
    poisson = _method(poisson)
    randint = _method(randint)
    randint_like = _method(randint_like)
    truncated_normal = _method(truncated_normal)
    uniform = _method(uniform)
    uniform_like = _method(uniform_like)

    def __repr__(self) -> str:
        seed, ticket = self._state.get()
        return f"Generator(seed={seed}, ticket={ticket})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, self._state.get())


#: names of other frameworks, whose replacements are in `hints/function_names.py`
_HINTED: Final = """
    binomial bit_generator chisquare choice clone_state geometric get_state initial_seed integers
    laplace load_state_dict logistic lognormal manual_seed multivariate_normal negative_binomial
    pareto permuted random rayleigh seed set_state shuffle spawn standard_cauchy
    standard_exponential standard_gamma standard_normal standard_t state_dict weibull
"""
hint_at(Generator, _HINTED.split())


def _restore(seed: int, ticket: int) -> Generator:
    made = Generator(seed)
    made._state.set(seed, ticket)
    return made


_default: Final = Generator(0)
_default._state = default_state


def default_generator() -> Generator:
    """The process's own generator, used by draws without a generator argument.

    >>> ef.random.seed(3)
    >>> ef.random.default_generator().state
    {'seed': 3, 'ticket': 0}
    """
    return _default


def seed(value: int) -> None:
    """Seed the process's own generator.

    Args:
        value: the seed, 0 to 2**64 - 1.

    >>> ef.random.seed(0)
    >>> a = ef.random.normal((2,))
    >>> ef.random.seed(0)
    >>> bool((ef.random.normal((2,)) == a).all())
    True
    """
    _set_state(_default._state, value)


__getattr__ = module_getattr("eagerflow.random", globals())
__dir__ = module_dir(globals())
