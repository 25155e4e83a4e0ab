"""Panels of tensors, variables, models, datasets and profiles, as they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Final, NamedTuple

from eagerflow.formatting import seconds_text
from eagerflow.profiling.profiles import Profile
from eagerflow.views.panels import Panel, table_of
from eagerflow.watching import Watcher
from eagerflow.watching.value_pictures import picture_of
from eagerflow.watching.value_statistics import ValueStatistics, value_statistics

#: the fraction of time waited from which on a stage starves its reader
_MUCH: Final = 0.25


def array_panel(array: Any) -> Panel:
    """Statistics and a picture of a tensor or a variable.

    Args:
        array: the tensor or variable, of any shape and dtype.
    """
    data = array.numpy()
    statistics = value_statistics(data)
    url, label = picture_of(data)
    panel = Panel(
        title=str(getattr(array, "name", "") or _type_text(array)),
        lines=_figures(array, statistics), alarm=_alarm(statistics), picture=url,
        picture_label=label,
    )  # fmt: skip
    if any(statistics.histogram):
        panel.bars = [float(count) for count in statistics.histogram]
        panel.bars_label = "distribution of the elements"
    return panel


def _type_text(array: Any) -> str:
    text = str(array.type)
    return text if "@" in text else f"{text}@{array.device}"


def _figures(array: Any, s: ValueStatistics) -> list[tuple[str, str]]:
    lines = [("type", _type_text(array)), ("elements", f"{s.size:,}")]
    if s.mean is not None:
        lines += [("range", f"{s.least:.4g} to {s.largest:.4g}"), ("mean", f"{s.mean:.4g}")]
    if s.looked_at < s.size:
        lines.append(("looked at", f"{s.looked_at:,} elements, evenly spread"))
    return lines


def _alarm(s: ValueStatistics) -> str:
    parts = [f"{s.nans:,} NaN"] * (s.nans > 0) + [f"{s.infs:,} infinite"] * (s.infs > 0)
    return ", ".join(parts)


# --- models ---------------------------------------------------------------------------------------


def model_alarms(state: Mapping[str, Any]) -> list[str]:
    """Texts that name the variables with NaN or infinite elements, with their number.

    Args:
        state: the variables by path.
    """
    alarms = {path: _alarm(value_statistics(v.numpy())) for path, v in state.items()}
    return [f"{path}: {alarm}" for path, alarm in alarms.items() if alarm]


def model_panel(state: Mapping[str, Any], name: str) -> Panel:
    """The variables of a model, with statistics of their current values.

    Args:
        state: the variables by path.
        name: the name of the model.
    """
    rows, wrong = [], []
    for path, variable in state.items():
        data = variable.numpy()
        s = value_statistics(data)
        if _alarm(s):
            wrong.append(f"{path}: {_alarm(s)}")
        figures = [_short(s.mean), _short(s.least), _short(s.largest)]
        kind = "" if variable.trainable else "not trained"
        rows.append((path, str(variable.type), f"{s.size:,}", kind, *figures))
    total = sum(prod(v.shape) for v in state.values())
    return Panel(
        title=name, lines=[("variables", f"{len(state):,}"), ("elements", f"{total:,}")],
        alarm="; ".join(wrong[:5]),
        columns=("variable", "type", "elements", "", "mean", "least", "largest"),
        rows=table_of(rows),
    )  # fmt: skip


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


# --- datasets -------------------------------------------------------------------------------------


class StageWaits(NamedTuple):
    """The waits of the readers of one stage, as far as they were watched.

    Attributes:
        stage: the text of the stage.
        elements: number of elements that it handed over.
        waited: seconds that its readers waited.
        share: fraction of the time since watching began.
    """

    stage: str
    elements: int
    waited: float
    share: float


def stage_waits(
    stages: Iterable[str], watcher: Watcher, clock: Callable[[], float]
) -> list[StageWaits | None]:  # fmt: skip
    """The waits of readers by stage; None for a stage that has no queue, or was not watched.

    Args:
        stages: the texts of the stages.
        watcher: the watcher.
        clock: returns the time, as ``time.perf_counter``.
    """
    with watcher.held():
        watcher.activity.collect()
        taken = dict(watcher.activity.taken)
        passed = max(clock() - watcher.opened, 1e-9)
    of_stages: list[StageWaits | None] = []
    for text in map(str.strip, stages):
        known = next((taken[name] for name in taken if _is_stage(name, text)), None)
        waits = None if known is None else StageWaits(text, *known, min(known[1] / passed, 1.0))
        of_stages.append(waits)
    return of_stages


def dataset_panel(stages: list[str], watcher: Watcher, *, clock: Callable[[], float]) -> Panel:
    """The stages of a dataset, and the waits of their readers, as far as they were watched.

    Args:
        stages: the texts of the stages.
        watcher: the watcher.
        clock: returns the time, as ``time.perf_counter``.
    """
    rows, starving = [], ""
    for place, (stage, waits) in enumerate(
        zip(stages, stage_waits(stages, watcher, clock), strict=True)
    ):
        if waits is None:
            rows.append((str(place + 1), stage.strip(), "", "", ""))
            continue
        text, count, waited, share = waits
        rows.append((str(place + 1), text, f"{count:,}", seconds_text(waited), f"{share:.0%}"))
        if share >= _MUCH and not starving:  # the first one: later stages wait for it, too
            starving = f"{text} hands over too slowly: its reader waited {share:.0%} of the time"
    return Panel(
        title="dataset", alarm=starving,
        lines=[("stages", str(len(stages)))],
        columns=("", "stage", "elements", "its reader waited", "of the time"), rows=table_of(rows),
    )  # fmt: skip


def _is_stage(name: str, text: str) -> bool:
    """Whether events of this name belong to the stage with this text."""
    head, written = name.removesuffix(")"), text.removeprefix(".")
    return written.startswith(head) and written[len(head) : len(head) + 1] in ("", "(", ",", ")")


# --- profiles -------------------------------------------------------------------------------------


def profile_panel(profile: Profile) -> Panel:
    """The ops of a profile, the slowest first, also while it is recording."""
    table = profile.table()
    rows = [
        (r.name, r.device, f"{r.calls:,}", seconds_text(r.mean), seconds_text(r.total),
         f"{r.share:.1%}")
        for r in table
    ]  # fmt: skip
    return Panel(
        title="profile",
        lines=[("ops", f"{sum(r.calls for r in table):,}"),
               ("of", seconds_text(profile.seconds))],
        columns=("op", "device", "calls", "mean", "total", "share"), rows=table_of(rows),
        shares=[r.share for r in table],
    )  # fmt: skip
