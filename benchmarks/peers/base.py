"""What an adapter must do, and the watch that times it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.problem import Problem

    Predictions = Mapping[str, Any]
    """Values for the held-out cells of each tested table, in their order."""


class Watch:
    """A clock that a fit tells about each iteration; it stands still while an error is looked at.

    Parameters
    ----------
    evaluate
        Error of predictions; None only notes the time.
    every
        Look at the error of every so many iterations.
    """

    def __init__(self, evaluate: Callable[[Predictions], float] | None = None, *, every: int = 1) -> None:
        self._evaluate, self._every = evaluate, every
        self._started, self._paused = time.perf_counter(), 0.0
        self.seconds: list[float] = []
        self.errors: list[float | None] = []

    def __call__(self, predict: Callable[[], Predictions], *, error: float | None = None) -> None:
        """Note the end of an iteration; `error` where the tool gives it itself."""
        arrived = time.perf_counter()
        self.seconds.append(arrived - self._started - self._paused)
        if self._evaluate is not None and error is None and len(self.seconds) % self._every == 0:
            error = self._evaluate(predict())
        self.errors.append(error)
        self._paused += time.perf_counter() - arrived

    def elapsed(self) -> float:
        """Seconds since the start, without those spent on looking."""
        return time.perf_counter() - self._started - self._paused

    def points(self) -> list[tuple[float, float]]:
        """(seconds, error) wherever an error was looked at."""
        return [(s, e) for s, e in zip(self.seconds, self.errors, strict=True) if e is not None]


class Peer(ABC):
    """One tool on one problem."""

    package: ClassVar[str]
    """What it is called on the package index."""
    blas_threads: ClassVar[int | None] = 1
    """Threads of BLAS; None for as many as the benchmark has. Tools with threads of their own want 1."""
    callback: ClassVar[bool] = True
    """Whether a fit can be watched; otherwise it is repeated with growing numbers of iterations."""
    every: ClassVar[int] = 1
    """Iterations between two looks at the error."""
    predicts: ClassVar[bool] = True
    """Whether it predicts values at all."""

    def __init__(self, problem: Problem, settings: Mapping[str, Any], *, threads: int) -> None:
        self.problem, self.settings, self.threads = problem, dict(settings), threads

    @abstractmethod
    def prepare(self) -> None:
        """Bring the arrays into the form that the tool takes (reported apart)."""

    @abstractmethod
    def fit(self, watch: Watch) -> None:
        """Fit: this is what is timed."""

    @abstractmethod
    def predict(self) -> Predictions:
        """The held-out cells, after a fit."""

    def facts(self) -> dict[str, Any]:
        """What else is worth knowing of the last fit: numbers, strings and lists of them."""
        return {}

    def growing(self) -> list[dict[str, Any]]:
        """Settings with fewer and more iterations, for tools that cannot be watched."""
        return []

    def brief(self) -> dict[str, Any]:
        """Settings for a warm-up."""
        return self.settings
