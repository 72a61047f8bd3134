"""gcmf itself, with nothing chosen: all relations, all of them with common factors, each relation alone."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gcmf
from benchmarks.ledger.scores import Answer
from benchmarks.ledger.shapes import alone
from benchmarks.peers.gcmf_own import collection

if TYPE_CHECKING:
    from benchmarks.problem import Problem

#: The parts of the library that a prediction depends on.
COMPUTES = ("data", "engines", "estimators", "likelihoods", "methods", "model", "fit.py", "gamma.py", "options.py")


def version() -> str:
    """Digest of the code that computes."""
    root, digest = Path(gcmf.__file__).parent, hashlib.sha1(usedforsecurity=False)
    for part in COMPUTES:
        for path in sorted((root / part).rglob("*.py")) if (root / part).is_dir() else [root / part]:
            digest.update(path.read_bytes())
    return f"gcmf {digest.hexdigest()[:8]}"


def fit(problem: Problem, **options: Any) -> tuple[dict[str, Answer], dict[str, Any]]:  # noqa: ANN401 - of GCMF
    """Answers and facts of one fit of all relations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
        model = gcmf.GCMF(progress=False, **options).fit(collection(problem))
    facts = {"factors": model.n_factors_active_, "sweeps": model.n_iter_, "status": model.status_.name}
    return {table.name: _answer(model, table) for table in problem.tested}, facts


def fit_alone(problem: Problem, **options: Any) -> tuple[dict[str, Answer], dict[str, Any]]:  # noqa: ANN401 - of GCMF
    """Answers of one fit for every tested relation, which then knows of no other; facts are of the last."""
    answers: dict[str, Answer] = {}
    facts: dict[str, Any] = {}
    for table in problem.tested:
        found, facts = fit(alone(problem, table.name), **options)
        answers |= found
    return answers, facts


def _answer(model: gcmf.GCMF, table: Any) -> Answer:  # noqa: ANN401 - a table with held-out cells
    mean, std = model.predict(table.name, table.test.i, table.test.j, return_std=True)
    held_out = gcmf.Relation(table.name, table.rows, table.cols, tuple(table.test), table.likelihood)
    return Answer(mean, std, float(model.score([held_out])["log_likelihood"].iloc[0]))
