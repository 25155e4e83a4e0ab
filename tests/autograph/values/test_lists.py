"""Lists, comprehensions and builtins on tensors, traced: the eager results, or an error."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import inspect
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.autograph.conversion.convert import replacements
from eagerflow.errors import TraceError
from tests.autograph.checks import check_error, check_same

# --- lists and comprehensions ------------------------------------------------------------------


def list_of_rows(xs):
    return [x * 2 for x in xs]


def filtered(xs):
    kept = [x * 2 for x in xs if x > 0 if x < 3]
    return ef.stack(kept), len(kept), sum(kept)


def filtered_python_items(x):
    return ef.stack([i * 2 for i in range(3) if x > i])


def two_fors(xs):
    return ef.stack([x - y for x in xs for y in xs if x >= y])


def nested_comprehensions(xs):
    return [[x * y for y in (1, 2)] for x in xs]


def walrus_in_a_comprehension(xs):
    ys = [last := x for x in xs]
    return last, len(ys)


def unpacked_in_a_comprehension(xs):
    return [a * b for a, (b, *_) in zip(xs, [(1, 2), (3, 4)], strict=True)]


def returned_filtered(xs):
    return [x for x in xs if x > 0]  # here


def filtered_dict(xs):
    return {i: x for i, x in enumerate(xs) if x > 0}  # here


def filtered_set(xs):
    return len({i for i in range(2) if xs[i] > 0})  # here


def conditional_generator(xs):
    return list(filter(lambda x: x > 0, xs))  # here


def appended_in_one_branch(xs):
    kept = [xs[0]]
    for x in xs:
        if x > 0:
            kept.append(x)
    return ef.stack(kept), len(kept)


def appended_in_both_branches(x):
    ys = [x]
    if x > 0:
        ys.append(x * 2)
    else:
        ys.append(-x)
    return ys


def appended_in_nested_loops(xs):
    halves = []
    for x in xs:
        while x > 1:
            x = x / 2
            halves.append(x)
    return ef.stack([*xs]) if xs[0] < -5 else ef.concat([ef.stack(halves), xs])


def list_is_read_while_it_grows(x):
    ys = [x]
    while x > 1:
        x = x / (len(ys) + 1)
        ys.append(x)
    return ef.stack(ys), ys[-1]


def _add(ys, x):
    if x > 0:
        ys.append(x)  # here


def list_of_a_caller(x):
    ys = [x]
    _add(ys, x)
    return ef.stack(ys)


def appends_a_string(x):
    names = ["a"]
    if x > 0:  # here
        names.append("b")
    return x


# --- builtins ----------------------------------------------------------------------------------


def any_and_all(xs):
    flags = [x > 0 for x in xs]
    return any(flags), all(flags), any(x > 1 for x in xs), all(x > -9 for x in xs), any([])


def any_stops(xs):
    count = ef.zeros(())
    for x in xs:
        if any(x > i for i in range(2)) and not all(x > i for i in (0, 1)):
            count = count + 1
    return count


def greatest_and_least(x, y):
    return max(x, y), min(x, y, 0.0), max([x, y], key=lambda z: -z), min(z * z for z in (x, y))


def of_rows(xs):
    return sum(xs), max(xs), min(xs), any(xs > 1), sum(x * x for x in xs)


def named_as_a_builtin(xs):
    def any(items):
        return len(list(items))

    return any(x for x in xs)


def any_of_a_generator_with_draws(xs):
    draws = (x + ef.random.normal(()) > 1 for x in xs)
    return any(draws)  # here


def sorted_rows(xs):
    return sorted(xs)  # here


def in_a_list(x):
    return x in [1.0, 2.0]  # here


V = [1.0, -2.0, 3.0]
W = [-1.0, -2.0]

EQUAL = [
    (list_of_rows, [(V,), (W,)]),
    (filtered, [(V,), ([1.0, 2.0, 2.5],)]),
    (filtered_python_items, [(1.5,), (2.5,)]),
    (two_fors, [(V,), (W,)]),
    (nested_comprehensions, [(V,)]),
    (walrus_in_a_comprehension, [(V,)]),
    (unpacked_in_a_comprehension, [([1.0, 2.0],)]),
    (appended_in_one_branch, [(V,), (W,), ([1.0],)]),
    (appended_in_both_branches, [(1.0,), (-1.0,)]),
    (appended_in_nested_loops, [([5.0, 3.0],), ([1.5, 0.0],)]),
    (list_is_read_while_it_grows, [(9.0,), (0.5,)]),
    (any_and_all, [(V,), (W,), ([1.0, 2.0],)]),
    (any_stops, [([0.5, 2.0, -1.0],)]),
    (greatest_and_least, [(1.0, 2.0), (3.0, -2.0), (float("nan"), 1.0)]),
    (of_rows, [(V,), (W,), ([1.0, 2.0],), ([2.0],)]),
    (named_as_a_builtin, [(V,)]),
]

ERRORS = [
    (
        returned_filtered,
        (V,),
        ["returns a list whose length only the graph knows", "ef.stack(list)", "# here"],
    ),
    (filtered_dict, (V,), ["bool()", "# here", "ef.where(condition"]),
    (filtered_set, (V,), ["bool()", "# here", "a set"]),
    (conditional_generator, (V,), ["bool()", "# here", "filter()"]),
    (list_of_a_caller, (1.0,), ["is held elsewhere", "list_of_a_caller", "ef.stack(list)"]),
    (appends_a_string, (1.0,), ["names gets something other than tensors", "str", "# here"]),
    (any_of_a_generator_with_draws, (V,), ["side effects", "next_key", "# here", "any(f(x)"]),
    (sorted_rows, (V,), ["bool()", "# here", "ef.sort"]),
    (in_a_list, (1.0,), ["bool()", "# here", "ef.where"]),
]


@pytest.mark.parametrize(("function", "calls"), EQUAL, ids=lambda x: getattr(x, "__name__", ""))
def test_traced_is_eager(function, calls) -> None:
    check_same(function, calls)


@pytest.mark.parametrize(
    ("function", "args", "words"), ERRORS, ids=lambda x: getattr(x, "__name__", "")
)
def test_error(function, args, words) -> None:
    check_error(function, args, words)


def test_gradients_go_through_lists_of_unknown_length() -> None:
    def f(xs):
        return sum([x * x for x in xs if x > 0]) + max(xs) * min(xs)

    x = ef.tensor(V)
    want = ef.grad(f)(x).tolist()
    assert want == [2.0, 3.0, 4.0]
    assert ef.grad(ef.trace(f))(x).tolist() == want
    assert ef.trace(ef.grad(f))(x).tolist() == want


outside: list[Any] = []


def fills_a_list_outside(xs):
    for x in xs:
        outside.append(x)
    return ef.stack(outside)


def fills_it_under_a_condition(xs):
    for x in xs:
        if x > 1:  # here
            outside.append(x)
    return xs


def test_a_list_outside_is_filled_as_eagerly() -> None:
    outcomes = []
    for function in (fills_a_list_outside, ef.trace(fills_a_list_outside)):
        outside.clear()
        results = [str(function(ef.tensor(V))) for _ in range(2)]
        outcomes.append((results, str(outside), type(outside)))
    assert outcomes[0] == outcomes[1]


def test_a_list_outside_gets_no_length_that_depends_on_data() -> None:
    outside.clear()
    with pytest.raises(TraceError) as caught:
        ef.trace(fills_it_under_a_condition)(ef.tensor(V))
    for words in ("outside gets a length that depends on data", "# here", "return the appended"):
        assert words in str(caught.value)
    assert type(outside) is list
    assert outside == []


class _Holder:
    shared: list[Any] = []  # noqa: RUF012 - of all objects, which is what is tested

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.kept: Any = None


def in_an_argument(log, xs):
    for x in xs:
        if x > 1:  # here
            log.append(x)


def in_a_dict(d, xs):
    for x in xs:
        if x > 1:  # here
            d["log"].append(x)


def under_another_name(owner, xs):
    log = owner.log
    while xs.sum() > 1:  # here
        log.append(xs.sum())
        xs = xs / 2


def in_a_class(owner, xs):
    if xs.sum() > 1:  # here
        type(owner).shared.append(xs.sum())


def in_a_default(_, xs, log=[]):  # noqa: B006 - the list is what is tested
    if xs.sum() > 1:  # here
        log.append(xs)


def in_what_collects_arguments(owner, *rest):
    if rest[0].sum() > 1:  # here
        owner.append(rest[0])


@pytest.mark.parametrize(
    ("function", "owner"),
    [
        (in_an_argument, []),
        (in_a_dict, {"log": []}),
        (under_another_name, _Holder()),
        (in_a_class, _Holder()),
        (in_a_default, 0),
        (in_what_collects_arguments, []),
    ],
)
def test_no_element_is_lost(function, owner) -> None:
    lists = _Holder.shared, (in_a_default.__defaults__ or ())[0], getattr(owner, "log", [])
    before = repr(owner if not isinstance(owner, _Holder) else vars(owner))
    with pytest.raises(TraceError, match="gets a length that depends on data") as caught:
        ef.trace(function)(owner, ef.tensor(V))
    assert "# here" in str(caught.value)
    assert repr(owner if not isinstance(owner, _Holder) else vars(owner)) == before
    assert all(type(one) is list and one == [] for one in lists)


@pytest.mark.filterwarnings("ignore:.*was traced:eagerflow.errors.TraceWarning")
def test_a_list_outside_is_filled_for_inputs_of_all_sizes() -> None:
    logs = []
    for function in (in_all_iterations, ef.trace(in_all_iterations)):
        owner = _Holder()
        for size in (2, 3, 4):
            function(owner, ef.arange(float(size)))
        logs.append(str(owner.log))
    assert logs[0] == logs[1]


def in_all_iterations(owner, xs):
    for x in xs:
        owner.log.append(x)


def keeps_as_an_attribute(owner, xs):
    owner.kept = [x for x in xs if x > 1]


def keeps_in_an_argument(owner, xs):
    owner["kept"] = {"above": [x for x in xs if x > 1]}


def keeps_in_a_list(_, xs):
    outside.append([x for x in xs if x > 1])


@pytest.mark.parametrize(
    ("function", "owner", "what"),
    [
        (keeps_as_an_attribute, _Holder(), "owner.kept keeps a list"),
        (keeps_in_an_argument, {}, "owner keeps a list"),
        (keeps_in_a_list, 0, "outside keeps a list"),
    ],
)
def test_nothing_outside_keeps_what_stands_for_a_list(function, owner, what) -> None:
    outside.clear()
    before = repr(owner if not isinstance(owner, _Holder) else vars(owner))
    with pytest.raises(TraceError, match=what) as caught:
        ef.trace(function)(owner, ef.tensor(V))
    assert "ef.stack(list)" in str(caught.value)
    assert f"{function.__name__}" in str(caught.value)
    assert repr(owner if not isinstance(owner, _Holder) else vars(owner)) == before
    assert outside == []


@pytest.mark.filterwarnings("ignore:.*was traced:eagerflow.errors.TraceWarning")
def test_a_list_of_known_length_is_kept_as_one() -> None:
    owner = _Holder()

    @ef.trace
    def keeps(xs):
        owner.kept = [x * 2 for x in xs]

    for size in (2, 3, 4):
        keeps(ef.ones(size))
        assert type(owner.kept) is list
        assert [float(x) for x in owner.kept] == [2.0] * size


def _of_a_loop(x):
    rows = []
    while len(rows) < 3 * x:
        rows.append(ef.stack([x, x + len(rows)]))
    return ef.stack(rows, 1), ef.stack(rows, axis=-1), ef.stack(rows, -2)


def test_the_axis_of_a_stack_is_given_as_in_eager_code() -> None:
    x = ef.ones(())
    assert [y.tolist() for y in ef.trace(_of_a_loop)(x)] == [y.tolist() for y in _of_a_loop(x)]
    assert ef.trace(lambda x: ef.stack([x, x], -1))(ef.ones(3)).shape == (3, 2)


def _of_a_loop_wrongly(x):
    rows = []
    while len(rows) < 3 * x:
        rows.append(x)
    return ef.stack(rows, dim=0)


@pytest.mark.parametrize("function", [_of_a_loop_wrongly, lambda x: ef.stack([x, x], dim=0)])
def test_a_wrong_name_of_an_argument_gets_the_hint_of_the_function(function) -> None:
    with pytest.raises(TypeError, match=r"^stack\(\) got an unexpected") as caught:
        ef.trace(function)(ef.ones(()))
    assert "use axis= instead of dim=" in str(caught.value.__notes__)


def test_replacements_take_the_arguments_of_the_function() -> None:
    """A call that is right in eager code is right in a trace."""
    ef.trace(lambda x: [x for _ in range(2)])(ef.ones(2))  # the table is filled when first needed
    functions = [f for f in replacements if str(f.__module__).startswith("eagerflow")]
    assert {ef.stack, ef.cond, ef.switch, ef.while_loop, ef.scan, ef.map} <= {*functions}
    for function in functions:
        taken = inspect.signature(replacements[function])
        parameters = inspect.signature(function).parameters.values()
        positional = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)]
        named = {p.name: 0 for p in parameters if p.kind is p.KEYWORD_ONLY}
        by_name = {p.name: 0 for p in positional if p.kind is p.POSITIONAL_OR_KEYWORD}
        taken.bind(*[0] * len(positional), **named)
        taken.bind(*[0] * (len(positional) - len(by_name)), **by_name, **named)
