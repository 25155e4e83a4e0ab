"""Line search: the step length along a direction, by the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import eagerflow as ef

_SUFFICIENT = 1e-4
_CURVATURE = 0.9
#: phases of a search: for an interval, for a point within the interval, finished
_BRACKETING, _ZOOMING, _DONE = range(3)


class Point(NamedTuple):
    """A point on the line, all ``f64[]``.

    Attributes:
        t: the distance from the start, in units of the direction.
        f: the value of the function there.
        slope: its derivative with respect to ``t``.
    """

    t: ef.Tensor
    f: ef.Tensor
    slope: ef.Tensor


class SearchResult(NamedTuple):
    """The point at which a search has ended.

    Attributes:
        point: the point.
        gradient: the gradient there.
        evaluations: number of evaluations of the function, ``i64[]``.
    """

    point: Point
    gradient: ef.Tensor
    evaluations: ef.Tensor


#: the point at ``t`` and the gradient there
Objective: TypeAlias = Callable[[ef.Tensor], tuple[Point, ef.Tensor]]


class _Search(NamedTuple):
    """The state of a search, from one evaluation to the next.

    Attributes:
        phase: `_BRACKETING`, `_ZOOMING` or `_DONE`.
        t: the next trial.
        low: the best end of the interval; while bracketing, the previous point.
        gradient: the gradient at ``low``.
        high: the other end of the interval.
        low_first: whether ``low`` was found before ``high``, which breaks ties.
        stuck: whether the last trial came close to an end of the interval.
        evaluations: number of evaluations so far.
    """

    phase: ef.Tensor
    t: ef.Tensor
    low: Point
    gradient: ef.Tensor
    high: Point
    low_first: ef.Tensor
    stuck: ef.Tensor
    evaluations: ef.Tensor


def strong_wolfe(
    objective: Objective, start: Point, gradient: ef.Tensor, t: ef.Tensor, *, most: ef.Tensor,
    smallest: ef.Tensor,
) -> SearchResult:  # fmt: skip
    """A point that fulfils the strong Wolfe conditions (Nocedal and Wright, 2006, section 3.5).

    First steps grow until an interval must contain such a point, then cubic interpolation makes
    the interval smaller (algorithms 3.5 and 3.6). One loop does both, so that a graph contains
    the function once.

    Args:
        objective: the function, evaluated at one point at a time.
        start: the point at 0, where the slope is negative.
        gradient: the gradient there.
        t: the first trial.
        most: maximum number of further evaluations, ``i64[]``.
        smallest: length below which an interval is not made smaller.
    """

    def goes_on(s: _Search) -> ef.Tensor:
        return (s.phase != _DONE) & (s.evaluations <= most)

    def iteration(s: _Search) -> _Search:
        new, g = objective(s.t)
        s = s._replace(evaluations=s.evaluations + 1)
        after: _Search = ef.cond(
            s.phase == _BRACKETING,
            lambda: _next_trial(_bracketed(s, start, gradient, new, g, most), smallest),
            lambda: _next_trial(_zoomed(s, start, new, g), smallest),
        )
        return after

    zero, no = ef.zeros_like(most), ef.zeros_like(most, dtype=ef.bool)
    first = _Search(zero + _BRACKETING, t, start, gradient, start, ~no, no, zero)
    end = ef.while_loop(goes_on, iteration, first)
    return SearchResult(end.low, end.gradient, end.evaluations)


def _too_high(start: Point, new: Point) -> ef.Tensor:
    """Whether a point violates the condition of sufficient decrease."""
    return new.f > start.f + _SUFFICIENT * new.t * start.slope


def _flat_enough(start: Point, new: Point) -> ef.Tensor:
    return ef.abs(new.slope) <= -_CURVATURE * start.slope


def _bracketed(
    s: _Search, start: Point, gradient: ef.Tensor, new: Point, g: ef.Tensor, most: ef.Tensor
) -> _Search:
    """The search after a trial while bracketing: too far, far enough, or not far enough."""
    before = s.low
    again = s.evaluations - 1
    last = again == most
    too_far = _too_high(start, new) | ((again > 1) & (new.f >= before.f))
    done = last | (~too_far & _flat_enough(start, new))
    bracketed = ~done & (too_far | (new.slope >= 0))
    # the interval begins at the previous point; without evaluations left, at the start
    other = _choose(last, start, before)
    beside = ef.where(last, gradient, s.gradient)
    keeps = ef.where(last | bracketed, other.f <= new.f, False)
    further = _cubic(before, new, new.t + 0.01 * (new.t - before.t), 10 * new.t)
    return s._replace(
        phase=ef.where(done, _DONE, ef.where(bracketed, _ZOOMING, _BRACKETING)),
        t=further,
        low=_choose(keeps, other, new),
        gradient=ef.where(keeps, beside, g),
        high=_choose(keeps, new, other),
        low_first=keeps,
    )


def _zoomed(s: _Search, start: Point, new: Point, g: ef.Tensor) -> _Search:
    """The search after a trial within the interval."""
    low, high = s.low, s.high
    worse = _too_high(start, new) | (new.f >= low.f)
    # the new point replaces the high end, yet may be lower than the low end
    swapped = worse & ef.where(s.low_first, ~(low.f <= new.f), new.f <= low.f)
    better = ~worse
    done = better & _flat_enough(start, new)
    turned = better & ~done & (new.slope * (high.t - low.t) >= 0)
    becomes_low = better | swapped
    return s._replace(
        phase=ef.where(done, _DONE, s.phase),
        low=_choose(becomes_low, new, low),
        gradient=ef.where(becomes_low, g, s.gradient),
        high=_choose(swapped | turned, low, _choose(worse, new, high)),
        low_first=s.low_first ^ swapped,
    )


def _next_trial(s: _Search, smallest: ef.Tensor) -> _Search:
    """The search with its next trial within the interval, if it is long enough."""
    zooming = s.phase == _ZOOMING
    left, right = _least(s.low.t, s.high.t), _greatest(s.low.t, s.high.t)
    t = _cubic(s.low, s.high, left, right)
    margin = 0.1 * (right - left)
    close = _least(right - t, t - left) < margin
    moved = close & (s.stuck | (t >= right) | (t <= left))
    inner = ef.where(ef.abs(t - right) < ef.abs(t - left), right - margin, left + margin)
    small = zooming & (ef.abs(s.high.t - s.low.t) < smallest)
    return s._replace(
        phase=ef.where(small, _DONE, s.phase),
        t=ef.where(zooming, ef.where(moved, inner, t), s.t),
        stuck=ef.where(zooming, close & ~moved, s.stuck),
    )


def _cubic(a: Point, b: Point, least: ef.Tensor, greatest: ef.Tensor) -> ef.Tensor:
    """The minimiser of the cubic through two points with these slopes, within limits."""
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    d2 = ef.sqrt(ef.maximum(square, 0.0))
    ordered = a.t <= b.t
    x, y = _choose(ordered, a, b), _choose(ordered, b, a)
    t = y.t - (y.t - x.t) * ((y.slope + d2 - d1) / (y.slope - x.slope + 2 * d2))
    return ef.where(square >= 0, _least(_greatest(t, least), greatest), (least + greatest) / 2)


def _least(a: ef.Tensor, b: ef.Tensor) -> ef.Tensor:
    return ef.where(b < a, b, a)


def _greatest(a: ef.Tensor, b: ef.Tensor) -> ef.Tensor:
    return ef.where(b > a, b, a)


def _choose(first: ef.Tensor, a: Any, b: Any) -> Point:
    return Point(*(ef.where(first, x, y) for x, y in zip(a, b, strict=True)))
