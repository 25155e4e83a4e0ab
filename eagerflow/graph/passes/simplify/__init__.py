"""Algebraic simplification: only what gives the same bits, NaN, infinities and -0.0 included.

A rule follows from a fact that ops state, or is a pattern of some ops: `arithmetic` has those of
values, as ``x * 1``, and `shapes` those of shapes and axes.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Form, Report, Rewriter, shown
from eagerflow.graph.passes.simplify import arithmetic, shapes  # noqa: F401 - they add rules
from eagerflow.graph.passes.simplify.site import (
    NodesBefore,
    RuleSite,
    fact_rules,
    facts_of,
    gives_input,
    rules,
)

__all__ = ["has_rules", "simplify"]

#: how many times one node is rewritten at most
_LIMIT: Final = 100


def simplify(graph: Graph) -> tuple[Graph, Report]:
    """Apply the rules to each node, until none fits. Nodes with control edges stay."""
    rewriter = Rewriter("simplify", graph)
    before = NodesBefore(rewriter)
    for node in graph.nodes:
        if node.attrs:
            rewriter.inside(node, simplify)
        form = rewriter.form(node)
        if len(node.outputs) == 1 and not node.control_inputs and has_rules(form.op):
            last = _apply(form, node, before)
            if last is None:
                continue
            form = last
        before.add(form, node.outputs)
    return rewriter.finish()


def _apply(form: Form, node: Node, before: NodesBefore) -> Form | None:
    """The last form that ``node`` takes; None if a value takes its place."""
    (output,) = node.outputs
    first, rewriter = form, before.rewriter
    for _ in range(_LIMIT):
        replacement = _first(RuleSite(form, output, before))
        if isinstance(replacement, Value):
            text = f"{shown(node)} = {node.op} is %{replacement.name}"
            rewriter.drop(node, (replacement,), text)
            return None
        if replacement is None:
            break
        form = replacement
    if form is not first:
        taken = ", ".join([f"%{v.name}" for v in form.inputs])
        rewriter.put(node, (form,), f"{shown(node)} = {node.op} is {form.op}({taken})")
    return form


def has_rules(op: str) -> bool:
    """Whether any rule may fit nodes of ``op``."""
    if op in rules:
        return True
    facts = facts_of(op)
    return facts is not None and (
        facts.neutral is not None or facts.involution or facts.idempotent or gives_input(facts)
    )


def _first(site: RuleSite) -> Value | Form | None:
    for each in chain(fact_rules, rules.get(site.op, ())):
        replacement = each(site)
        if replacement is not None:
            return replacement
    return None
