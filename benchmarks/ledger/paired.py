"""Paired differences: the same splits, gcmf against each other method, in percent of gcmf's own measure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from benchmarks.ledger.methods import METHODS
from benchmarks.ledger.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Lines = Sequence[Mapping[str, str]]

#: Percent by which nothing may be better.
MARGIN = 0.5
#: Paired errors that a difference must exceed to count.
ERRORS = 2.0


@dataclass(frozen=True)
class Difference:
    """100 · (other − gcmf) / |gcmf|, over the splits that both have; below zero, gcmf is worse."""

    task: str
    method: str
    percents: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over splits."""
        return fmean(self.percents)

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None of a single split."""
        return stdev(self.percents) / len(self.percents) ** 0.5 if len(self.percents) > 1 else None

    @property
    def beaten(self) -> bool:
        """Whether the other is better by more than the margin, and by more than twice the paired error."""
        return self.mean < -MARGIN and (self.error is None or -self.mean > ERRORS * self.error)

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{self.mean:+.2f}{error}"


class Values:
    """One measure of every line, by task, method and split."""

    def __init__(self, lines: Lines) -> None:
        self.lines = {(line["task"], line["method"], int(line["split"])): line for line in lines}

    def of(self, task: str, method: str, measure: str) -> dict[int, float]:
        """Split: value, where there is one."""
        return {
            split: float(line[measure])
            for (one, other, split), line in self.lines.items()
            if (one, other) == (task, method) and line.get(measure)
        }

    def mean(self, task: str, method: str, measure: str) -> float | None:
        """Mean over splits."""
        found = self.of(task, method, measure)
        return fmean(found.values()) if found else None

    def tasks(self) -> list[str]:
        """Those that gcmf has lines of, in the usual order."""
        return [name for name, task in TASKS.items() if self.of(name, "gcmf", task.measure)]

    def methods(self) -> list[str]:
        """Those with lines, in the usual order."""
        return [name for name in METHODS if any(method == name for _, method, _ in self.lines)]

    def difference(self, task: str, method: str) -> Difference | None:
        """Of the measure that decides; None where there is nothing to compare."""
        own, other = (self.of(task, name, TASKS[task].measure) for name in ("gcmf", method))
        both = sorted(own.keys() & other.keys())
        percents = tuple(100.0 * (other[split] - own[split]) / abs(own[split]) for split in both)
        return Difference(task, method, percents) if percents else None

    def differences(self, *groups: str) -> Iterator[Difference]:
        """All of the methods in these groups."""
        for task in self.tasks():
            for method in self.methods():
                if METHODS[method].group in groups and method != "gcmf":
                    found = self.difference(task, method)
                    if found is not None:
                        yield found
