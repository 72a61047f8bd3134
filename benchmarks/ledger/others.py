"""The peers, by the adapters of benchmarks/peers: what each is given of a problem, and what it can answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.ledger.losses import log_normal, normal, poisson
from benchmarks.ledger.ridge import ridge
from benchmarks.ledger.scores import Answer
from benchmarks.ledger.shapes import alone, around, as_cells, as_views, cells
from benchmarks.peers import make
from benchmarks.peers.base import Watch
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from benchmarks.ledger.methods import Job
    from benchmarks.problem import Problem, Table

    Answers = Mapping[str, Answer]

#: Least squares is no probability; it is cut to these.
INSIDE = 1e-3, 1.0 - 1e-3
#: Columns of side information that a sampler is given at most; wider ones are left out.
WIDEST = 2_000
#: cmfrec's own numbers, tried by cross-validation; its default is the first.
GRID: tuple[dict[str, Any], ...] = (
    {},
    {"k": 10},
    {"k": 20, "lambda_": 3.0},
    {"k": 20, "lambda_": 30.0},
    {"k": 10, "lambda_": 1.0},
    {"k": 40, "scale_lam": True, "lambda_": 0.05, "niter": 15},
    {"k": 20, "scale_lam": True, "lambda_": 0.1, "niter": 15},
    {"k": 10, "scale_lam": True, "lambda_": 0.3, "niter": 15},
)


@dataclass(frozen=True)
class Other:
    """A peer with its settings, called for every tested relation in turn."""

    name: str
    words: str
    group: str
    package: str
    answer: Callable[[Problem, str, Job], Answer]
    can: Callable[[Problem], bool]
    revision: int = 2

    def __call__(self, problem: Problem, job: Job) -> tuple[Answers, dict[str, Any]]:
        """Answers for all tested relations."""
        return {table.name: self.answer(problem, table.name, job) for table in problem.tested}, {}


def of_truth(table: Table) -> Answer:
    """What one knows who knows the expectations; real cells were drawn with unit noise."""
    assert table.means is not None
    assert table.test is not None
    mean, x = table.means, table.test.x
    if table.likelihood == "bernoulli":
        return Answer(mean)
    if table.likelihood == "poisson":
        return poisson(x, mean)
    return normal(x, mean, 1.0)


def _predict(tool: str, problem: Problem, job: Job, **settings: Any) -> NDArray[np.float64]:  # noqa: ANN401 - its own
    """What a tool says of the first relation's held-out cells."""
    peer = make(tool, problem, settings=settings, threads=job.threads)
    peer.prepare()
    peer.fit(Watch())
    return np.asarray(peer.predict()[problem.tables[0].name], np.float64)


def _kind(problem: Problem) -> str:
    return problem.tested[0].likelihood


# --- cmfrec -------------------------------------------------------------------------------------------------


def _cmfrec(problem: Problem, name: str, job: Job) -> Answer:
    mean = _predict("cmfrec", around(problem, name), job)
    return Answer(np.clip(mean, *INSIDE) if _kind(problem) == "bernoulli" else mean)


def _cmfrec_cv(problem: Problem, name: str, job: Job) -> Answer:
    """The best of the grid, with and without side information, by a tenth of the training cells; then all of them.

    Counts are fitted as logarithms with normal errors, which gives each count a probability.
    """
    counts, main = _kind(problem) == "poisson", problem[name]
    change: Callable[..., Any] = np.log1p if counts else np.asarray
    data = cells(main)
    data = Triplets(data.i, data.j, change(data.x.astype(np.float64)))
    out = np.random.default_rng([job.split, 7]).random(len(data.x)) < 0.1
    known, tried = (Triplets(*(part[which] for part in data)) for which in (~out, out))
    forms = [around, alone] if len(problem.tables) > 1 else [alone]
    errors = {}
    for form in forms:
        trial = _first(form(problem, name), train=known, test=tried)
        for n, settings in enumerate(GRID):
            guess = _predict("cmfrec", trial, job, **settings)
            errors[form, n] = float(np.sqrt(np.mean((guess - tried.x) ** 2)))
    form, n = min(errors, key=lambda one: errors[one])
    mean = _predict("cmfrec", _first(form(problem, name), train=data), job, **GRID[n])
    assert main.test is not None
    if _kind(problem) == "bernoulli":
        return Answer(np.clip(mean, *INSIDE))
    if not counts:
        return normal(main.test.x, mean, errors[form, n])
    return log_normal(main.test.x, mean, errors[form, n])


def _first(problem: Problem, **parts: Any) -> Problem:  # noqa: ANN401 - of Table
    main, *others = problem.tables
    return replace(problem, tables=(replace(main, **parts), *others))


# --- samplers -----------------------------------------------------------------------------------------------


def _narrow(problem: Problem, name: str) -> Problem:
    """One relation with what touches it, if that is not too wide."""
    whole = around(problem, name)
    kept = [t for n, t in enumerate(whole.tables) if n == 0 or np.shape(t.train)[1] <= WIDEST]
    return replace(whole, tables=tuple(kept))


def _myfm(problem: Problem, name: str, job: Job) -> Answer:
    settings = {"rank": 10, "n_iter": 200}
    if _kind(problem) == "gaussian":
        main, *sides = _narrow(problem, name).tables
        # The facts of an entity are together as long as its own indicator.
        sides = [replace(t, train=t.train / np.sqrt(np.nanmean(t.train**2) * t.train.shape[1])) for t in sides]
        short = replace(around(problem, name), tables=(main, *sides))
        return Answer(_predict("myfm", short, job, **settings))
    others = [replace(t, test=None) for t in problem.tables if t.name != name and t.likelihood == "bernoulli"]
    stacked = as_cells(replace(problem, tables=(problem[name], *others)))
    return Answer(_predict("myfm", stacked, job, **settings))


def _smurff(problem: Problem, name: str, job: Job) -> Answer:
    settings = {"num_latent": 16, "burnin": 50, "nsamples": 100, "noise": "adaptive"}
    return Answer(_predict("smurff", _narrow(problem, name), job, **settings))


# --- views, rankings ----------------------------------------------------------------------------------------


def _sharing_rows(problem: Problem) -> bool:
    """Whether there is one real-valued target, and it is a dense view beside others of the same samples."""
    main = problem.tested[0]
    beside = [t for t in problem.tables if t.rows == main.rows and t.name != main.name]
    dense = not isinstance(main.train, Triplets)
    return len(problem.tested) == 1 and main.likelihood == "gaussian" and dense and bool(beside)


def _mofa(problem: Problem, name: str, job: Job) -> Answer:
    rows = problem[name].rows
    views = [t for t in problem.tables if t.rows == rows]
    views.sort(key=lambda t: t.name != name)
    whole = as_views(replace(problem, tables=tuple(views)))
    # Its priors are for views of unit variance: as its documentation asks, each is scaled as a whole.
    scales = [float(np.nanstd(t.train)) if t.likelihood == "gaussian" else 1.0 for t in whole.tables]
    scaled = [replace(t, train=t.train / scale) for t, scale in zip(whole.tables, scales, strict=True)]
    answer = _predict("mofapy2", replace(whole, tables=tuple(scaled)), job, factors=20, convergence_mode="fast")
    return Answer(answer * scales[0])


def _implicit(problem: Problem, name: str, job: Job) -> Answer:
    single = alone(problem, name)
    data = cells(single.tables[0])
    ones = Triplets(*(part[data.x > 0] for part in data))
    mean = _predict("implicit", _first(single, train=ones), job, factors=20, iterations=15)
    return Answer(mean, ranks_only=True)


def _ridge(problem: Problem, name: str, job: Job) -> Answer:
    return ridge(problem, name, split=job.split)


def _mostly_seen(problem: Problem) -> bool:
    """Whether the target is a matrix with few gaps, and others say something of its rows or columns."""
    main = problem.tested[0]
    touching = [t for t in problem.tables if t is not main and {t.rows, t.cols} & {main.rows, main.cols}]
    dense = not isinstance(main.train, Triplets)
    return len(problem.tested) == 1 and dense and bool(touching) and _kind(problem) != "poisson"


OTHERS = (
    Other("cmfrec", "cmfrec, its defaults, with side information", "peer", "cmfrec", _cmfrec,
          lambda p: _kind(p) != "poisson"),
    Other("cmfrec-cv", "cmfrec, the best of 8 settings with and without side information by validation cells",
          "peer", "cmfrec", _cmfrec_cv, lambda _: True),
    Other("mofapy2", "mofapy2, 20 factors, views of the same samples", "peer", "mofapy2", _mofa, _sharing_rows),
    Other("ridge", "ridge (0/1: logistic) on biases and on what other relations say of rows and columns", "peer", "",
          _ridge, _mostly_seen),
    Other("implicit", "implicit, 20 factors, the target alone; it only ranks", "peer", "implicit", _implicit,
          lambda p: _kind(p) == "bernoulli" and len(p.tested) == 1),
    Other("myfm", "myFM, rank 10, 200 samples", "sampler", "myfm", _myfm, lambda p: _kind(p) != "poisson"),
    Other("smurff", "SMURFF, 16 factors, 50 + 100 samples", "sampler", "smurff", _smurff,
          lambda p: _kind(p) == "gaussian"),
)  # fmt: skip
