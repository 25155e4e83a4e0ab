"""`Placer`: places the traces of a function, each trace once per set of rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from eagerflow.core.moves_to_scopes import tell_of_crossing
from eagerflow.errors import PlacementWarning
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.graph.ir import Graph
from eagerflow.placement.apply_rules import Placement, place
from eagerflow.placement.rules import Rules
from eagerflow.source import warn

if TYPE_CHECKING:
    from eagerflow.function.placing.automatic import Automatic
    from eagerflow.placement.automatic.requests import Request


@final
class Placer:
    """Places the traces of one function.

    A pattern has to match in one of the traces, not in all: a step for training may have scopes
    that a step for evaluation lacks.

    Args:
        name: of the function.

    Attributes:
        rules: the rules for traces to come; None for none.
        automatic: automatic placement, used in place of rules; None if it was not requested.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: Rules | None = None
        self.automatic: Automatic | None = None
        self._matched: set[str] = set()
        self._warned = self._told_of_caller = False

    def place(self, graph: Graph) -> tuple[Rules | None, Placement | None]:
        """The rules for a graph, and the graph placed by them.

        Raises:
            PlacementError: the graph cannot be placed by the rules.
        """
        rules = self.rules if self.automatic is None else self.automatic.rules(graph)
        if rules is None:
            return None, None
        placement = place(graph, rules, known=self._matched)
        self._matched |= placement.matched
        self._tell(placement.fallbacks)
        if self.automatic is None:  # automatic placement has weighed crossing values
            _tell_of_crossing([placement])
        return rules, placement

    def change(
        self, rules: Rules | None, entries: Sequence[CacheEntry], forgotten: Sequence[Graph] = ()
    ) -> None:
        """Place traces by other rules, all or none; does nothing if the rules are the same.

        Args:
            rules: the rules.
            entries: the traces.
            forgotten: the graphs of traces that existed until state moved. If there are no
                others, rules that are impossible for these graphs are refused as well.

        Raises:
            PlacementError: a trace cannot be placed by the rules.
        """
        same = rules is self.rules or (rules is not None and rules.is_same(self.rules))
        if same and self.automatic is None:
            return
        if not entries:
            _placed(forgotten, rules)
        matched, placements = _placed([entry.graph for entry in entries], rules)
        self.rules, self._matched, self._warned = rules, matched, False
        self.automatic = None
        for entry, placement in zip(entries, placements, strict=True):
            entry.replace(rules, placement)
        made = [placement for placement in placements if placement is not None]
        self._tell([text for placement in made for text in placement.fallbacks])
        _tell_of_crossing(made)

    def decide(self, request: Request, entries: Sequence[CacheEntry]) -> None:
        """Let automatic placement place present traces, all or none, and later ones.

        Args:
            request: the request for automatic placement.
            entries: the traces.

        Raises:
            PlacementError: a trace fits nowhere.
        """
        from eagerflow.function.placing.automatic import Automatic  # noqa: PLC0415 - few need it

        automatic = Automatic(self.name, request)
        rules = [automatic.rules(entry.graph) for entry in entries]
        placements = [place(e.graph, r) for e, r in zip(entries, rules, strict=True)]
        self.rules, self.automatic, self._matched, self._warned = None, automatic, set(), False
        for entry, one, placement in zip(entries, rules, placements, strict=True):
            entry.replace(one, placement)

    def adopt(self, entry: CacheEntry) -> None:
        """Place a trace of another function."""
        if self.automatic is not None:
            entry.replace(*self.place(entry.graph))
            return
        rules = self.rules
        if entry.rules is rules or (rules is not None and rules.is_same(entry.rules)):
            return
        entry.replace(*self.place(entry.graph))

    def tell_of_caller(self, caller: str) -> None:
        """Warn once that the function is part of another trace, where its own rules do not hold.

        Args:
            caller: the name of the function being traced; may be this function's own.
        """
        is_placed = self.rules is not None or self.automatic is not None
        if not is_placed or self._told_of_caller or caller == self.name:
            return
        self._told_of_caller = True
        warn(
            f"{self.name}: in the trace of {caller}, of which this call is a part, the placement "
            f"of {self.name} does not hold; place {caller}, as by the pattern {self.name!r}",
            PlacementWarning,
        )

    def _tell(self, fallbacks: Sequence[str]) -> None:
        """Warn of nodes that are not where rules want them, once per set of rules."""
        if not fallbacks or self._warned:
            return
        self._warned = True
        more = f", and {len(fallbacks) - 1} more" if len(fallbacks) > 1 else ""
        text = f"{self.name}: {fallbacks[0]}{more}; f.explain('placement') tells more"
        warn(text, PlacementWarning)


def _tell_of_crossing(placements: Sequence[Placement]) -> None:
    """Warn of variables that are read on other devices in each step because of rules."""
    for placement in placements:
        for device, sizes in placement.crossing.items():
            remedy = (
                f"ef.move(..., {str(device)!r}) moves variables there, and ops in "
                "ef.colocate(variable) go along"
            )
            tell_of_crossing(sizes, device, remedy)


def _placed(
    graphs: Sequence[Graph], rules: Rules | None
) -> tuple[set[str], list[Placement | None]]:
    """The patterns that match in some trace, and the traces placed.

    Raises:
        PlacementError: a trace cannot be placed, or a pattern matches in none.
    """
    if rules is None:
        return set(), [None for _ in graphs]
    placements: list[Placement | None] = []
    matched: set[str] = set()
    every = rules.targets.keys()
    for graph in graphs:
        placement = place(graph, rules, known=every)
        placements.append(placement)
        matched |= placement.matched
    if graphs and not matched >= every:
        first = place(graphs[0], rules, known=matched)  # its error names pattern and near names
        placements[0] = first
    return matched, placements
