"""Reading the rows of a case: medians, time to an error, ratios to gcmf."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]
    Results = Mapping[str, Mapping[str, Any]]


def row(results: Results, case: str, label: str) -> Row | None:
    """A row that was measured, or None."""
    rows = results.get(case, {}).get("rows", [])
    return next((one for one in rows if one["label"] == label and "seconds" in one), None)


def seconds(one: Row) -> float:
    """Median time of a fit."""
    return float(median(one["seconds"]))


def reaches(own: Row, error: float) -> float | None:
    """Seconds until gcmf's held-out error is at most this, median over the repeats; None if it never is.

    The same seed gives the same bits in every run, so the errors of the run that was looked at belong to the
    sweeps of the runs that were timed.
    """
    found = next((n for n, e in enumerate(own.get("errors", [])) if e is not None and e <= error), None)
    if found is not None and all(found < len(marks) for marks in own["marks"]):
        return float(median(marks[found] for marks in own["marks"]))
    # The last moves come after the last sweep.
    return seconds(own) if own["error"] is not None and own["error"] <= error else None


def sweep_seconds(own: Row, *, factors: int | None = None) -> float:
    """Time of a gcmf iteration: all of the fit over its sweeps, or with `factors` the median with so many alive."""
    if factors is None:
        return seconds(own) / len(own["marks"][0])
    alive = own["facts"]["factors_alive"]
    steps = [
        b - a
        for marks in own["marks"]
        for n, (a, b) in enumerate(pairwise(marks))
        # From a sweep that left so many alive to one that still did: both worked on all of them.
        if alive[n] == factors and alive[n + 1] == factors
    ]
    return float(median(steps)) if steps else sweep_seconds(own)


def iterations_to(trace: list[float], *, within: float = 1e-4) -> int:
    """Sweeps until the bound is, and stays, within this fraction of its last value."""
    last = trace[-1]
    outside = [n for n, value in enumerate(trace, start=1) if abs(value - last) > within * abs(last)]
    return (outside[-1] if outside else 0) + 1
