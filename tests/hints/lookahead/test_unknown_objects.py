"""Objects of unknown class in the list of other lines: the class is told by name, or not at all."""

from __future__ import annotations

import re

import pytest

from tests.hints.lookahead.wrong_programs import rest_of


@pytest.mark.parametrize(
    ("owner", "hint"),
    [
        ("opt", "optimiser.state is a dict of its variables"),
        ("self.optimizer", "optimiser.state is a dict of its variables"),
        ("policy_net", "net.state is a dict of its variables"),
        ("scheduler",
         "a schedule has no state: optimiser.state has the number of updates, optimiser.count"),
    ],
)  # fmt: skip
def test_the_name_of_an_object_tells_which_class_it_is_of(owner: str, hint: str) -> None:
    rest = rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{owner}.state_dict()\n")
    assert rest == f"  in the same source:\n    line 3: {owner}.state_dict: {hint}"


def test_the_classes_of_an_object_without_a_telling_name_are_told_in_brief() -> None:
    rest = rest_of("import eagerflow as ef\nef.manual_seed(0)\nthing.state_dict()\n")
    assert rest is not None
    (_, line) = rest.splitlines()
    for kind in ("a module: net.state", "an optimiser: ", "a schedule: ", "a dataset: an iterator"):
        assert f"of {kind}" in line
    assert len(line) < 350


_MADE = """\
def make_data(path, model=None):
    return ef.data.Dataset.from_lines(path).batch(4)

def main():
    net = ef.nn.Linear(2, 3)
    opt, data = ef.optim.Adam(net.trainable), make_data("a")
    resume(net, opt, source=data)
"""
_RECEIVERS = [
    ("ef.data.Dataset.from_tensors(x).map(f).batch(2)", "an iterator has the position"),
    ("ef.data.Dataset.zip(a, b).shuffle(seed=0)", "an iterator has the position"),
    ("ef.optim.SGD([v], lr=0.1)", "optimiser.state is a dict"),
    ("ef.optim.CosineSchedule(0.1, steps=3)", "a schedule has no state"),
    ("ef.nn.Linear(2, 3)", "net.state is a dict"),
    ("make_data('a')", "an iterator has the position"),
]


@pytest.mark.parametrize(("receiver", "hint"), _RECEIVERS)
def test_a_method_of_several_classes_has_the_hint_of_its_receiver(receiver: str, hint: str) -> None:
    source = f"import eagerflow as ef\n{_MADE}\nef.manual_seed(0)\nx = {receiver}\nx.state_dict()\n"
    rest = rest_of(source)
    assert rest is not None
    assert rest.splitlines()[1:] == [
        next(line for line in rest.splitlines() if "state_dict" in line)
    ]
    assert re.search(rf"line 12: x.state_dict: {hint}", rest)


@pytest.mark.parametrize("how", ["", ": ef.data.Dataset", "=None"])
def test_a_receiver_that_is_a_parameter(how: str) -> None:
    resume = f"def resume(a, b, source{how}):\n    a.state_dict()\n    b.state_dict()\n"
    resume += "    source.state_dict()\n"
    rest = rest_of(f"import eagerflow as ef\n{_MADE}{resume}ef.manual_seed(0)\n")
    assert rest is not None
    lines = re.findall(r"line (\d+): (\w+)\.state_dict: (an \w+|\w+)", rest)
    assert lines == [
        ("10", "a", "net"), ("11", "b", "optimiser"), ("12", "source", "an iterator"),
    ]  # fmt: skip


def test_a_receiver_is_looked_up_in_the_functions_that_the_error_has_left() -> None:
    program = (
        "import eagerflow as ef\nmake = [ef.data.Dataset.from_tensors]\n"
        "def main():\n    stream = make[0](ef.arange(3))\n    ef.manual_seed(0)\n"
        "    stream.state_dict()\nmain()\n"
    )
    assert "line 6: stream.state_dict: an iterator has the position" in str(rest_of(program))


def test_an_unknown_receiver_gets_the_hints_of_all_classes() -> None:
    rest = rest_of("import eagerflow as ef\nef.manual_seed(0)\nx.load_state_dict(y)\n")
    assert rest is not None
    assert (
        "line 3: x.load_state_dict: of a module: net.load_state(state); of an optimiser: " in rest
    )
    assert "of a dataset: it = data.iterator(state)" in rest
    two = "def f(x): x.state_dict()\nf(ef.nn.Linear(2, 3))\nf(ef.optim.LBFGS([v]))"
    rest = rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{two}\n")
    assert "x.state_dict: of a module: " in str(rest)


def test_what_gradients_by_rows_have_is_no_fault() -> None:
    """`IndexedSlices` has `to_dense`; of an object of unknown class nothing is said."""
    source = "import eagerflow as ef\nef.manual_seed(0)\ng.to_dense(), g.coalesce(), g.addcmul()\n"
    assert "to_dense" not in rest_of(source)
    assert "coalesce" not in rest_of(source)
    assert "addcmul" in rest_of(source)
