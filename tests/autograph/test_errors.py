"""Operations that no graph can do: errors at trace time, with the user's lines and a remedy."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import itertools
import linecache
import os
import traceback
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError, TraceError
from tests.messages import points_at, says

x = ef.tensor(1.0)
xs = ef.tensor([1.0, 2.0])


def one_branch(x):
    if x > 0:
        y = x * 2  # bound here
    return y


def one_branch_in_a_loop(xs):
    for x in xs:
        if x > 0:
            last = x  # bound here
    return last


def other_kind(x):
    if x > 0:
        y = x * 2  # a tensor
    else:
        y = None  # not a tensor
    return y


def other_dtype(x):
    if x > 0:
        y = x * 2  # a float
    else:
        y = ef.zeros((), dtype="int32")  # an integer
    return y


def returns_none(x):
    if x > 0:
        return x
    return None


def none_in_a_loop(x):
    h = None
    while x > 1:
        h = x  # a tensor
        x = x / 2
    return h


def shape_changes(x):
    y = x
    while x < 5:
        y = ef.zeros((2, 2))  # a matrix
        x = x + 1
    return y


def bound_in_a_loop_that_may_have_no_iteration(x):
    while x > 1:
        y = x * 2  # bound here
        x = x / 2
    return y


def changes_a_set(x):
    seen = set()
    if x > 0:
        seen.add(1)
    return x


def chooses_a_text(x):
    if x > 0:
        y = "a"
    else:
        y = "b"
    return y


def chooses_a_text_at_once(x):
    return "a" if x > 0 else "b"


def and_or(x):
    return (x > 0 and x) or x * 2


def recursion(x):
    if x > 1:  # the condition
        return x * recursion(x - 1)
    return x


def matched(x):
    match x:
        case 1.0:  # the culprit
            return x
    return -x


def python_index(x):
    table = [1.0, 2.0]
    i = 0
    while x > 1:
        x = x / table[i]  # the culprit
        i += 1
    return x


def generator(x):
    def items():
        if x > 0:  # the culprit
            yield x

    return next(items())


def uses_locals(x):
    if x > 0:  # the culprit
        return x
    return len(locals()) * x


def endless_python(x):
    for i in itertools.count():
        if x > 0:
            break
        x = x + i
    return x


def truth_of_a_vector(xs):
    if xs:  # the culprit
        return xs
    return -xs


def in_place_and_anew(x):
    while x < 10:
        x += 1
        x = x * 2
    return x


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (one_branch, (x,), ["y is bound in only one branch", "y = x * 2  # bound here",
                            "if x > 0:", "bind it in both"]),
        (one_branch_in_a_loop, (xs,), ["last is bound in only one branch", "last = x  # bound"]),
        (other_kind, (x,), ["y is something else in each branch", "# a tensor", "# not a tensor"]),
        (other_dtype, (x,), ["different dtypes", "f32[]", "i32[]", "# a float", "# an integer"]),
        (returns_none, (x,), ["the function returns something else", "return None", "return x"]),
        (none_in_a_loop, (x,), ["h changes its structure or type in a loop", "None before",
                                "# a tensor", "start with"]),
        (shape_changes, (x,), ["'y'", "f32[2,2]", "# a matrix", "start with"]),
        (bound_in_a_loop_that_may_have_no_iteration, (x,),
         ["y is bound only in a loop that may have no", "# bound here", "y = ..."]),
        (changes_a_set, (x,), ["seen is changed under a condition", "a set"]),
        (chooses_a_text, (x,), ["y is something else", "the text 'a'", "a text cannot be chosen"]),
        (chooses_a_text_at_once, (x,), ["the result of `x if c else y`",
                                        "a text cannot be chosen"]),
        (and_or, (x,), ["the result of `and` is of different dtypes", "write `y if x else z`"]),
        (recursion, (x,), ["calls itself under a condition", "# the condition", "a loop"]),
        (matched, (x,), ["bool()", "# the culprit", "match", "ef.where(condition"]),
        (python_index, (x,), ["known only when the graph runs", "# the culprit"]),
        (generator, (x,), ["not converted, because it is a generator", "# the culprit"]),
        (uses_locals, (x,), ["because it calls locals() at line", "# the culprit"]),
        (endless_python, (-x,), ["without a length in the graph", "while True"]),
        (truth_of_a_vector, (xs,), ["the truth of a tensor with axes", "# the culprit"]),
        (in_place_and_anew, (x,), ["updates x in place and binds the", "x = x + …"]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)  # fmt: skip
def test_error(function, args, words, monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.autograph.flow.loop_statements._MOST", 50)
    with pytest.raises(EagerflowError) as caught:
        ef.trace(function)(*args)
    for one in words:
        assert one in str(caught.value)
    _check_is_the_users(caught.value)


def _check_is_the_users(error: BaseException) -> None:
    """What Python prints of an error shows the user's code alone, and one error."""
    text = "".join(traceback.format_exception(error))
    assert "During handling" not in text
    assert os.path.dirname(ef.__file__) + os.sep not in text


def loop_of_the_graph(xs):
    for i, x in enumerate(xs):
        xs = xs + [1.0, 2.0][i] + float(x)
    return xs


def counted_while(xs):
    n = 0
    while xs[0] < 5:
        n += 1
        xs = xs + [1.0, 2.0][n]
    return xs


def explicit_scan(xs):
    return ef.scan(lambda n, x: (n + 1, [1.0, 2.0][n]), 0, xs)


def explicit_while(xs):
    return ef.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x[range(n)[0]]), (0, xs))


@pytest.mark.parametrize(
    "function",
    [loop_of_the_graph, counted_while, explicit_scan, explicit_while],
)  # fmt: skip
def test_only_the_users_frames_are_shown(function) -> None:
    with pytest.raises(EagerflowError) as caught:
        ef.trace(function)(xs)
    _check_is_the_users(caught.value)


def test_a_line_whose_code_is_several_functions_is_shown_once() -> None:
    names = {"weight": 1, "bias": 2}

    @ef.trace
    def step(x):
        return [x * (0.5 * name) for name in names]

    with pytest.raises(TypeError) as caught:
        step(x)
    shown = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert shown == ["test_a_line_whose_code_is_several_functions_is_shown_once", "step"]


def test_what_the_user_handles_is_the_context() -> None:
    def f(x):
        try:
            return {}["missing"]
        except KeyError:
            return float(x)

    with pytest.raises(TraceError) as caught:
        ef.trace(f)(x)
    assert type(caught.value.__context__) is KeyError  # and no internal exception of eagerflow


def test_code_without_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x\n", namespace)
    f = namespace["f"]
    with pytest.raises(
        TraceError, match=r"its source is not at hand .* in a file, in IPython or in a notebook"
    ):
        ef.trace(f)(x)
    assert ef.trace(lambda n: f(n) * 1.0)(3) == 3.0  # Python values need no conversion


def test_source_that_has_changed() -> None:
    namespace: dict[str, Any] = {}
    text = "def f(x):\n    if x > 0:\n        return x\n    return -x\n"
    exec(compile(text, "<changed>", "exec"), namespace)
    linecache.cache["<changed>"] = (
        len(text),
        None,
        text.replace("-x", "+x").splitlines(True),
        "<changed>",
    )
    with pytest.raises(TraceError, match="its source has changed since it was imported"):
        ef.trace(namespace["f"])(x)


def test_an_error_in_a_branch_leaves_python_as_it_was() -> None:
    state = {"x": ef.tensor(5.0), "log": []}
    before = dict(state)

    def f(x):
        if x > 0:
            state["x"] = x
            state["log"].append(1)
            y = x
        return y

    with pytest.raises(TraceError):
        ef.trace(f)(x)
    assert state == before
    assert state["log"] == []


def test_what_is_raised_under_a_condition_is_raised_when_it_holds() -> None:
    @ef.trace
    def f(x):
        if x < 0:
            raise KeyError("negative")
        while x > 1:
            x = x / 2
            if x == 5:
                raise ValueError("five")
        return x

    assert f(ef.tensor(11.0)).item() == 0.6875
    with pytest.raises(KeyError, match="negative"):
        f(ef.tensor(-1.0))
    with pytest.raises(ValueError, match="five"):
        f(ef.tensor(10.0))
    assert len(f.traces) == 1


def test_an_assertion_is_checked_in_each_run() -> None:
    @ef.trace
    def f(x):
        assert x > 0, "not positive"
        assert x < 100
        return x

    assert f(ef.tensor(1.0)).item() == 1.0
    with pytest.raises(AssertionError, check=says("not positive")):
        f(ef.tensor(-1.0))
    with pytest.raises(AssertionError):
        f(ef.tensor(200.0))


def test_a_helper_of_a_helper_is_named() -> None:
    def inner(x):
        if x > 0:
            return x & 1.5  # the culprit
        return x

    def outer(x):
        return inner(x) if x < 10 else x

    with pytest.raises(EagerflowError) as caught:
        ef.trace(lambda x: outer(x))(x)
    assert "inner: return x & 1.5  # the culprit" in str(caught.value)


def test_lines_are_the_users_and_not_those_of_libraries() -> None:
    @ef.trace
    def median(x):
        return np.median(x)  # the culprit

    with pytest.raises(TraceError, check=points_at("# the culprit")):
        median(xs)


def _taken(xs, i, kinds):
    try:
        return xs[i]  # the culprit
    except kinds:  # the handler
        return xs[0]


@pytest.mark.parametrize("kinds", [IndexError, (ValueError, LookupError)])
def test_what_only_the_graph_raises_is_not_left_to_a_handler(kinds) -> None:
    with pytest.raises(TraceError, match="TensorIndexError is raised when the graph runs") as one:
        ef.trace(lambda xs, i: _taken(xs, i, kinds))(xs, ef.tensor(1))
    for words in ("# the culprit", "# the handler", "around the call of the traced function"):
        assert words in str(one.value)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (ef.errors.QueueClosedError, "dequeue_up_to"),
        (ef.errors.RunnerFailedError, "put the `try` around the call"),
    ],
)
def test_a_closed_queue_is_not_left_to_a_handler(kind: type[Exception], advice: str) -> None:
    queue = ef.Queue(2, "f32[]")

    @ef.trace
    def last():
        try:
            return queue.dequeue()  # the culprit
        except kind:  # the handler
            return ef.tensor(-1.0)

    with pytest.raises(TraceError, match=f"{kind.__name__} is raised when the graph") as caught:
        last()
    for words in ("# the culprit", "# the handler", advice):
        assert words in str(caught.value)


def test_a_broad_handler_is_told_what_it_will_not_catch() -> None:
    with pytest.warns(ef.errors.TraceWarning, match=r"outside of the `try`(.|\n)*the culprit"):
        assert float(ef.trace(lambda xs, i: _taken(xs, i, Exception))(xs, ef.tensor(1))) == 2.0


def test_a_bare_handler_does_not_hide_what_a_trace_refuses() -> None:
    def value(x):
        try:
            return x * float(x)  # the culprit
        except:  # noqa: E722 - it is tested
            return x

    def grown(xs):
        elements = []
        for x in xs:
            try:
                if x > 1:
                    elements.append(x)
            except BaseException:
                elements.clear()
        return ef.stack(elements)

    with pytest.raises(TraceError, check=points_at("# the culprit")):
        ef.trace(value)(x)
    assert ef.trace(grown)(xs).tolist() == grown(xs).tolist()


@pytest.mark.parametrize("value", [True, False])
def test_a_flag_of_the_graph_is_neither_true_nor_false_itself(value) -> None:
    def flagged(x):
        flag = False
        if x > 0:
            flag = True
        if value:
            return x if flag is True else -x  # the culprit
        return -x if flag is not False else x  # the culprit

    def masked(x, mask):
        return x if mask is True or mask is False else x * mask

    with pytest.raises(TraceError, check=points_at("# the culprit")):
        ef.trace(flagged)(x)
    assert ef.trace(masked)(x, value).item() == 1.0
    assert ef.trace(masked)(x, ef.tensor([True, False])).tolist() == [1.0, 0.0]


def test_handlers_for_something_else_are_left_alone() -> None:
    assert float(ef.trace(lambda xs, i: _taken(xs, i, KeyError))(xs, ef.tensor(1))) == 2.0
