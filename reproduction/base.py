"""What an experiment is: a name, a function that runs it at one of two sizes, and the outcome it returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from matplotlib.figure import Figure


_Settings = TypeVar("_Settings")
_Settings_contra = TypeVar("_Settings_contra", contravariant=True)


class Size(Enum):
    """How much to compute."""

    QUICK = "quick"
    """About a minute: fewer repetitions, smaller sets, coarser grids."""
    FULL = "full"
    """The paper's size, or as near to it as the experiment says."""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper beside what we measured."""

    text: str
    """What is claimed, as one sentence."""
    paper: str
    """The paper's figure, quoted."""
    ours: str
    """Our figure."""
    holds: bool | None
    """None: neither, for the reason that `undecided` gives."""
    note: str = ""
    """What a reader must know to judge it."""
    undecided: str = "cannot be judged"
    """What stands in place of yes or no."""

    @property
    def verdict(self) -> str:
        """Return `yes`, `no`, or why it is neither."""
        return self.undecided if self.holds is None else "yes" if self.holds else "no"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found."""

    table: pd.DataFrame
    """Raw results, a row per fit or measurement."""
    claims: tuple[Claim, ...]
    figure: Figure
    seconds: float = 0.0
    """Wall-clock time; the runner fills it in."""
    notes: tuple[str, ...] = ()
    """Settings and departures from the paper, a sentence or two each."""


class Progress:
    """Told how far an experiment is; this one keeps silent."""

    def start(self, total: int, what: str) -> None:
        """Begin a stage of `total` steps."""

    def step(self, text: str = "") -> None:
        """Finish one step; `text` says what was done."""


class Run(Protocol[_Settings_contra]):
    """Runs an experiment: every random draw comes from `seed`, so the same seed gives the same table."""

    def __call__(self, settings: _Settings_contra, progress: Progress, *, seed: int = 0) -> Outcome:
        """Fit, measure, judge and draw."""
        ...


@dataclass(frozen=True)
class Experiment(Generic[_Settings]):
    """One figure or table of the paper."""

    name: str
    """What `python -m reproduction` calls it."""
    title: str
    needs: tuple[str, ...]
    """Names of the data folders it reads; none if it simulates."""
    settings: Mapping[Size, _Settings]
    run_with: Run[_Settings]


AnyExperiment = Experiment[Any]
"""Whatever its settings are."""
