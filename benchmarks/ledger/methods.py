"""The columns of the ledger: who predicts, what each can do, and which version of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.ledger import others, own
from benchmarks.ledger.biases import biases
from benchmarks.machine import version as installed
from benchmarks.problem import toy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.ledger.scores import Answer
    from benchmarks.problem import Problem

    Answers = Mapping[str, Answer]


@dataclass(frozen=True)
class Job:
    """What a method is told beside the data."""

    split: int
    threads: int = 1
    options: Mapping[str, Any] | None = None
    """Of GCMF, where it is not to be left alone."""

    @property
    def own(self) -> dict[str, Any]:
        """Parameters of GCMF."""
        return {"random_state": self.split, "n_threads": self.threads, **(self.options or {})}


@dataclass(frozen=True)
class Method:
    """One column."""

    name: str
    words: str
    group: str
    """"own" (gcmf and what it must not be worse than), "peer", "sampler" or "truth"."""
    run: Callable[[Problem, Job], tuple[Answers, dict[str, Any]]]
    """Answers, and facts worth noting."""
    can: Callable[[Problem], bool] = lambda _: True
    package: str = ""
    """What its version is that of; none: it is written here."""
    revision: int = 1
    """Raised when what is written here changes."""

    @property
    def version(self) -> str:
        """What its rows are filed under."""
        if self.package == "gcmf":
            return own.version()
        return f"{self.package} {installed(self.package)}, {self.revision}" if self.package else f"{self.revision}"


def measure(method: Method, problem: Problem, job: Job) -> tuple[Answers, float, dict[str, Any]]:
    """Answers, seconds and facts; what gcmf compiles is loaded before the clock starts."""
    if method.package == "gcmf":
        method.run(toy(problem), replace(job, options={"max_iter": 60, **(job.options or {})}))
    started = time.perf_counter()
    answers, facts = method.run(problem, job)
    return answers, time.perf_counter() - started, facts


def _own(problem: Problem, job: Job, **options: Any) -> tuple[Answers, dict[str, Any]]:  # noqa: ANN401 - of GCMF
    return own.fit(problem, **job.own, **options)


def _alone(problem: Problem, job: Job) -> tuple[Answers, dict[str, Any]]:
    return own.fit_alone(problem, **job.own)


def _biases(problem: Problem, job: Job) -> tuple[Answers, dict[str, Any]]:
    return biases(problem, split=job.split), {}


def _truth(problem: Problem, job: Job) -> tuple[Answers, dict[str, Any]]:
    del job
    return {table.name: others.of_truth(table) for table in problem.tested}, {}


def _several(problem: Problem) -> bool:
    return len(problem.tables) > 1


def _simulated(problem: Problem) -> bool:
    return all(table.means is not None for table in problem.tested)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("gcmf", "gcmf, all defaults", "own", _own, package="gcmf"),
        Method("common", "gcmf, sharing='common'", "own", partial(_own, sharing="common"), _several, package="gcmf"),
        Method("alone", "gcmf, the target relation alone", "own", _alone, _several, package="gcmf"),
        Method("draws", "gcmf, inference='gibbs'", "sampler", partial(_own, inference="gibbs"), package="gcmf"),
        Method("bias", "biases alone, by ridge", "own", _biases),
        *(Method(one.name, one.words, one.group, one, one.can, one.package, one.revision) for one in others.OTHERS),
        Method("truth", "the expectations that data were drawn from", "truth", _truth, _simulated),
    )
}
