"""What one process measures: one tool on one problem."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import memory
from benchmarks.peers import make
from benchmarks.peers.base import Watch
from benchmarks.problem import load, toy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers.base import Peer
    from benchmarks.problem import Problem

#: A fit that takes longer (seconds) is not repeated.
REPEAT_BELOW = 60.0
#: Nor is one that takes longer than this fitted once more to see the error on the way.
WATCH_BELOW = 300.0


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Time, held-out error and peak memory of a fit; then repeats, then the error on the way."""
    problem = load(Path(job["input"]))
    _warm_up(problem, job)
    peer = _make(problem, job)
    base = memory.start()
    started = time.perf_counter()
    peer.prepare()
    prepare_seconds = time.perf_counter() - started
    prepared = memory.peak()
    watches = [_fit(peer)]
    top = memory.peak()
    error = problem.error(peer.predict()) if peer.predicts else None
    facts = peer.facts()
    while watches[-1].total < REPEAT_BELOW and len(watches) < job["repeats"]:
        watches.append(_fit(peer))
    return {
        "seconds": [watch.total for watch in watches],
        "prepare_seconds": prepare_seconds,
        "error": error,
        "peak_bytes": top - base,
        "prepare_bytes": prepared - base,
        # When each iteration ended, in each repeat.
        "marks": [watch.seconds for watch in watches] if peer.callback else [],
        "facts": facts,
        **(_way(peer, problem, job) if peer.predicts and watches[0].total < WATCH_BELOW else {}),
    }


def fill_cache(job: Mapping[str, Any]) -> dict[str, Any]:
    """Compile whatever a fit of this problem needs, so that no measurement has to."""
    problem = load(Path(job["input"]))
    peer = _make(problem, {**job, "settings": {**job["settings"], "max_iter": 60}})
    peer.prepare()
    return {"seconds": _fit(peer).total}


class _Timed(Watch):
    """A watch that has seen a whole fit."""

    total = 0.0


def _fit(peer: Peer, *, problem: Problem | None = None) -> _Timed:
    watch = _Timed(None if problem is None else problem.error, every=peer.every)
    peer.fit(watch)
    watch.total = watch.elapsed()
    return watch


def _make(problem: Problem, job: Mapping[str, Any]) -> Peer:
    return make(job["peer"], problem, settings=job["settings"], threads=job["threads"])


def _warm_up(problem: Problem, job: Mapping[str, Any]) -> None:
    """Import, load compiled code and start thread pools on a toy of the same kind."""
    peer = _make(toy(problem), job)
    peer.settings = peer.brief()
    peer.prepare()
    peer.fit(Watch())
    peer.predict()


def _way(peer: Peer, problem: Problem, job: Mapping[str, Any]) -> dict[str, Any]:
    """(seconds, error) on the way, with the clock stopped while looking; or one short fit after the other."""
    if peer.callback:
        watch = _fit(peer, problem=problem)
        return {"errors": watch.errors, "way": watch.points()}
    counts, seconds, points = [], [], []
    for settings in peer.growing():
        short = make(job["peer"], problem, settings=settings, threads=job["threads"])
        short.prepare()
        seconds.append(_fit(short).total)
        counts.append(short.facts()["iterations"])
        points.append((seconds[-1], problem.error(short.predict())))
    slope = float(np.polyfit(counts, seconds, 1)[0]) if len(counts) > 1 else seconds[-1] / counts[-1]
    return {"way": points, "iteration_seconds": slope}
