"""Checks of what users register: rows of the table of kernels, and derivatives of ops."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, get_args

from eagerflow.core.op_records.op_facts import OpFacts, Precision, Reaches, Saved
from eagerflow.errors import KernelWarning, OpDefinitionError
from eagerflow.hardware import is_known_kind, known_kinds
from eagerflow.source import warn
from eagerflow.unknown_names import nearest

if TYPE_CHECKING:
    from eagerflow.core.op import Op


def check_count(op: Op, dtypes: tuple[str, ...]) -> None:
    """Refuse dtypes of a special kernel whose number is not that of the inputs of its op.

    Raises:
        OpDefinitionError: the kernel would never be called.
    """
    count = op.input_count
    if count is None or len(dtypes) in (1, count):
        return
    raise OpDefinitionError(
        f"special: a kernel of {op.name} would never be called, as its dtypes are not one for each "
        "input",
        given=f"{len(dtypes)} dtypes, {', '.join(dtypes)}, for {count} input{'s' * (count != 1)}",
        expected="a dtype for each input, or one for all",
        hint="for several dtypes of one input, register the kernel once for each: "
        + "; ".join(f"special({op.name!r}, kind, ({name!r},))(kernel)" for name in dtypes[:2]),
    )


def count_of_rules(name: str, rules: int, inputs: int) -> OpDefinitionError:
    """The error for an op that has not one vjp rule for each input."""
    return OpDefinitionError(
        f"{name}: there is not one vjp rule for each input",
        given=f"{rules} rule{'s' * (rules != 1)} for {inputs} input{'s' * (inputs != 1)}",
        expected="vjp=(rule, rule, …) with a rule, or None where no derivative flows, for each",
    )


def check_statement(name: str, vjp: Any, *, nondifferentiable: bool) -> None:
    """Refuse an op without one statement about its gradient."""
    if (vjp is None) != nondifferentiable:
        raise OpDefinitionError(
            f"{name}: the gradient statement is missing or contradicts itself",
            expected="either vjp=... or nondifferentiable=True",
        )


#: what the words of a fact mean
_MEANINGS: Final = {
    "saved": "the values that the vjp rules read: 'all' are the inputs and the output, 'indices' "
    "the inputs of integer dtypes; of the others they read shape and dtype",
}

#: facts that are one of a few words
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "precision": get_args(Precision), "reaches": get_args(Reaches), "saved": get_args(Saved),
}  # fmt: skip


def check_facts(name: str, facts: OpFacts) -> None:
    """Refuse facts that no op has, words that state no fact, and rules that cannot be called.

    Raises:
        OpDefinitionError: names the facts, the words, or the rule.
    """
    known = OpFacts.__required_keys__ | OpFacts.__optional_keys__
    batch = facts.get("batch")
    if isinstance(batch, FunctionType) and not _takes(batch, 1):
        raise OpDefinitionError(
            f"{name}: the batching rule does not take the value that it is called with",
            given=f"{batch.__name__}{signature(batch)}",
            expected="rule(at): at.inputs[i] has the rows of ef.vmap first where at.batched[i] is "
            "True",
            hint="return at.bind(*at.all_whole(), **at.attrs) applies the op to all rows at once, "
            "if it takes leading axes; each_row of eagerflow.extending takes them one by one",
        )
    for fact, value in facts.items():
        if fact not in known:
            raise OpDefinitionError(
                f"{name}: ops have no fact {fact!r}",
                expected=", ".join(sorted(known)),
                hint=_meant(fact, known).removeprefix("; ") or None,
            )
        words = _WORDS.get(fact)
        if words is not None and value not in words:
            raise OpDefinitionError(
                f"{name}: {fact} is one of a few words",
                given=f"{fact}={value!r}",
                expected=" | ".join(map(repr, words)),
                hint=(_meant(str(value), words).removeprefix("; ") or _MEANINGS.get(fact)),
            )


def check_rules(op: Op, vjp: Any) -> bool:
    """Whether a vjp rule is a user's; those that cannot take their arguments are refused.

    Raises:
        OpDefinitionError: there is not one rule for each input of the kernel, or a rule takes a
            number of values that is not that of the cotangent, the output and the inputs.
    """
    if not is_users(sys._getframe(2).f_globals):
        rules = vjp if isinstance(vjp, tuple) else (vjp,)
        return any(isinstance(f, FunctionType) and is_users(f.__globals__) for f in rules)
    inputs = op.kernel_inputs
    if isinstance(vjp, FunctionType) and inputs is not None and not _takes(vjp, 3 + inputs):
        raise OpDefinitionError(
            f"{op.name}: a vjp rule that is not in a tuple is for ops of any number of inputs",
            given=f"{vjp.__name__}{signature(vjp)}",
            expected="a tuple with a rule for each input, joint(rule) with rule(g, out, *inputs, "
            "**attrs) for all of them, or rule(i, g, out, *inputs, **attrs)",
        )
    whole = getattr(vjp, "rule", None)  # of a `joint`
    if isinstance(whole, FunctionType) and inputs is not None and not _takes(whole, 2 + inputs):
        raise _wrong_rule(f"{op.name}: the vjp rule of all inputs", whole, inputs)
    if not isinstance(vjp, tuple):
        return vjp is not None
    if inputs is not None and inputs != len(vjp):
        raise count_of_rules(op.name, len(vjp), inputs)
    for i, rule in enumerate(vjp):
        if isinstance(rule, FunctionType) and not _takes(rule, 2 + len(vjp)):
            raise _wrong_rule(f"{op.name}: the vjp rule of input {i}", rule, len(vjp))
    return True


def _wrong_rule(what: str, rule: FunctionType, inputs: int) -> OpDefinitionError:
    """The error for a rule that cannot be called with the cotangent, the output and the inputs."""
    names = ", ".join(f"x{j + 1}" for j in range(inputs))
    return OpDefinitionError(
        f"{what} does not take the values that it is called with",
        given=f"{rule.__name__}{signature(rule)}",
        expected=f"rule(g, out, {names}, **attrs): the cotangent, the output, and the "
        f"{inputs} input{'s' * (inputs != 1)}",
    )


def is_users(names: Mapping[str, Any]) -> bool:
    """Whether a module, of which these are the globals, is none of eagerflow's."""
    return str(names.get("__name__")).partition(".")[0] != "eagerflow"


def _takes(rule: FunctionType, count: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    parameters = signature(rule).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in by_position)
    return needed <= count <= len(by_position)


def check_kind(name: str, kind: str) -> None:
    """Warn of a kernel for a kind of device that does not exist so far."""
    if not is_known_kind(kind):
        warn(
            f"special: there is no kind of device {kind!r} so far, so this kernel of {name} is not "
            f"called{_meant(kind, known_kinds())}",
            KernelWarning,
        )


def warn_of_unknown(name: str, known: Iterable[str]) -> None:
    """Warn of a kernel for an op that does not exist so far."""
    warn(
        f"special: there is no op named {name!r} so far, so this kernel is not called"
        f"{_meant(name, known) or '; define the op first'}",
        KernelWarning,
    )


def _meant(name: str, known: Iterable[str]) -> str:
    like = nearest(name, known)
    return "" if like is None else f"; did you mean {like!r}?"
