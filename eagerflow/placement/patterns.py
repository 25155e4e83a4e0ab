"""Patterns of scopes and nodes, matched through a trie instead of one by one.

A node's *path* is its scope, then its name: ``encoder/layer0/matmul``. A pattern has parts between
slashes, in which ``*``, ``?`` and ``[ab]`` mean what they mean for names of files, and stand for
one part; ``**`` stands for any number of parts, also none. A pattern matches a path in which it
matches consecutive parts: it may begin at any depth, and a pattern of a scope matches all nodes in
that scope. A pattern that begins with a slash begins at the outermost scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final, NamedTuple, final

from eagerflow.graph.ir import Node

_WILD: Final = re.compile(r"[*?\[]")


class Rank(NamedTuple):
    """Specificity of a pattern: of two that match a node, the pattern of greater rank counts.

    Attributes:
        names: number of its parts that are names, without wild cards.
        partial: number of parts that are names with wild cards.
        parts: number of parts, not counting ``**``.
        anchored: whether it begins at the outermost scope.
    """

    names: int
    partial: int
    parts: int
    anchored: bool


def parts_of(pattern: str) -> list[str]:
    """The parts of a pattern, without a leading slash."""
    return [part for part in pattern.strip("/").split("/") if part]


def rank_of(pattern: str) -> Rank:
    """The rank of a pattern.

    >>> from eagerflow.placement.patterns import rank_of
    >>> rank_of("encoder/layer0") > rank_of("encoder/layer*") > rank_of("encoder/*") > rank_of("*")
    True
    >>> rank_of("/encoder") > rank_of("encoder")
    True
    """
    parts = [part for part in parts_of(pattern) if part != "**"]
    names = sum(not _WILD.search(part) for part in parts)
    partial = sum(part != "*" for part in parts) - names
    return Rank(names, partial, len(parts), pattern.startswith("/"))


@final
@dataclass(slots=True, eq=False)
class _Branch:
    """A node of the trie: a prefix that some patterns share.

    Attributes:
        ends: the patterns that end here.
        names: the children by a part that is a name.
        wild: the children by a part with wild cards.
        deep: the child by ``**``.
        repeats: whether this is the child by ``**``, so that any part leads back to it.
    """

    ends: list[str] = field(default_factory=list)
    names: dict[str, _Branch] = field(default_factory=dict)
    wild: dict[str, tuple[re.Pattern[str], _Branch]] = field(default_factory=dict)
    deep: _Branch | None = None
    repeats: bool = False

    def after(self, part: str) -> _Branch:
        """The child by a part of a pattern, created if missing."""
        if part == "**":
            if self.deep is None:
                self.deep = _Branch(repeats=True)
            return self if self.repeats else self.deep
        if not _WILD.search(part):
            return self.names.setdefault(part, _Branch())
        if part not in self.wild:
            self.wild[part] = re.compile(translate(part)), _Branch()
        return self.wild[part][1]

    def step(self, part: str) -> Iterator[_Branch]:
        """The branches reached by a part of a path."""
        named = self.names.get(part)
        if named is not None:
            yield named
        for expression, branch in self.wild.values():
            if expression.match(part):
                yield branch
        if self.repeats:
            yield self


class _Reached(NamedTuple):
    """State of matching after a path.

    Attributes:
        branches: the branches where matching may go on.
        matches: the patterns that match the path.
    """

    branches: tuple[_Branch, ...]
    matches: tuple[str, ...]


@final
class Patterns:
    """A set of patterns, to be matched with many nodes.

    Args:
        patterns: the patterns.

    >>> from eagerflow.placement.patterns import Patterns
    >>> graph = ef.Graph.parse('graph f(%x: f32[n]) { %y = exp(%x) : f32[n] in "a/b" return %y }')
    >>> Patterns(["/a/*", "exp", "y", "b/*", "/b"]).of(graph.nodes[0])
    ('/a/*', 'b/*', 'y')
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        root = _Branch()
        for pattern in patterns:
            branch = root if pattern.startswith("/") else root.after("**")
            for part in parts_of(pattern):
                branch = branch.after(part)
            branch.ends.append(pattern)
        self._scopes = {"": self._reached([root], ())}

    def of(self, node: Node) -> tuple[str, ...]:
        """The patterns that match a node."""
        return self._after(self._scope(node.scope), node.name).matches

    def _scope(self, scope: str) -> _Reached:
        known = self._scopes.get(scope)
        if known is None:
            above, _, part = scope.rpartition("/")
            known = self._scopes[scope] = self._after(self._scope(above), part)
        return known

    def _after(self, reached: _Reached, part: str) -> _Reached:
        if not reached.branches:
            return reached
        branches = [one for branch in reached.branches for one in branch.step(part)]
        return self._reached(branches, reached.matches)

    @staticmethod
    def _reached(branches: list[_Branch], matches: tuple[str, ...]) -> _Reached:
        """The state at these branches, and at those behind a ``**`` that stands for no part."""
        every = dict.fromkeys(branches)
        for branch in branches:
            if branch.deep is not None:
                every[branch.deep] = None
        ends = [pattern for branch in every for pattern in branch.ends]
        return _Reached(tuple(every), tuple(dict.fromkeys([*matches, *ends])))
