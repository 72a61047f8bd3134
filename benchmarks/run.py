"""Run all measurements, one process after the other, and keep the answers as one JSON file per part."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import cases, machine, scaling
from benchmarks.peers import peer_class
from benchmarks.plan import RUNS, Run
from benchmarks.problem import Problem, save

ROOT = Path(__file__).resolve().parents[1]
#: What is not a case: gcmf and the machine alone.
EXTRAS = ("machine", "compile", "tiny", "memory", "scaling")


@dataclass(frozen=True)
class Bench:
    """Where results go and how thoroughly to measure."""

    out: Path
    threads: int = 2
    repeats: int = 3
    quick: bool = False
    methods: tuple[str, ...] = ()
    """Only rows whose label starts with one of these; all if empty."""

    def run(self, parts: tuple[str, ...]) -> None:
        """Measure the parts named, in the usual order."""
        self.out.mkdir(parents=True, exist_ok=True)
        for part in chosen(parts):
            print(f"== {part}", flush=True)
            if part in EXTRAS:
                getattr(self, f"_{part}")()
            else:
                self._case(part)

    def _case(self, case: str) -> None:
        problem = cases.build(case, quick=self.quick)
        if problem is None:
            print("   skipped: no data folder (set GCMF_DATA)")
            return
        path = self.out / "inputs" / f"{case}.npz"
        save(problem, path)
        rows = {row["label"]: row for row in self._read(case).get("rows", [])}
        for run in RUNS[case]:
            if not self.methods or run.label.startswith(self.methods):
                rows[run.label] = self._row(run.quick() if self.quick else run, path)
                self._write(case, {**_facts(problem), "rows": [rows[r.label] for r in RUNS[case] if r.label in rows]})

    def _row(self, run: Run, path: Path) -> dict[str, Any]:
        head = {"label": run.label, "peer": run.peer, "settings": run.settings, "words": run.words()}
        kind = peer_class(run.peer)
        if importlib.util.find_spec(kind.package) is None:
            print(f"   {run.label}: not installed")
            return {**head, "failed": "not installed"}
        job = {"input": str(path), "peer": run.peer, "settings": run.settings, "repeats": self.repeats}
        if run.peer == "gcmf":
            self._work("fill_cache", job)
        found = self._work("measure", job, blas_threads=kind.blas_threads)
        if "seconds" in found:
            error = "" if found["error"] is None else f", error {found['error']:.4f}"
            print(f"   {run.label}: {_median(found['seconds']):.2f} s{error}", flush=True)
        return {**head, "when": _now(), **found}

    def _machine(self) -> None:
        found = self._work("peaks", {"size": 256 if self.quick else 2048})
        self._write("machine", {**machine.describe(), **found})

    def _compile(self) -> None:
        """With an empty cache of compiled code, then with the one that this has filled."""
        with tempfile.TemporaryDirectory() as folder:
            cold, cached = (self._work("first_fit", {}, cache=Path(folder)) for _ in range(2))
        self._write("compile", {"cold": cold, "cached": cached})

    def _tiny(self) -> None:
        self._write("tiny", self._work("tiny", {"repeats": 3 if self.quick else 20}))

    def _memory(self) -> None:
        shape = (2_000, 500, 100_000) if self.quick else (20_000, 5_000, 10_000_000)
        self._write("memory", self._work("binary_memory", {"shape": shape}))

    def _scaling(self) -> None:
        rows = []
        for job in scaling.plan(threads=self.threads, quick=self.quick):
            rows.append({**job, **self._work("scaling", job)})
            print(f"   {job['series']}: {job['cells']:,} cells, K = {job['factors']}, {job['threads']} threads: "
                  f"{rows[-1].get('sweep_seconds', float('nan')):.4f} s a sweep", flush=True)  # fmt: skip
        self._write("scaling", {"rows": rows})

    def _work(
        self, task: str, job: dict[str, Any], *, blas_threads: int | None = None, cache: Path | None = None
    ) -> dict[str, Any]:
        """Do one task in a new process; what fails is reported and is no reason to stop."""
        job = {"threads": self.threads, **job, "task": task}
        cache = cache or self.out.resolve() / "numba-cache"
        found = work(job, self.out / "answer.json", blas_threads=blas_threads or self.threads, cache=cache)
        if "failed" in found:
            print(f"   {task} failed:\n{found.pop('told', '')}", flush=True)
        return found

    def _read(self, part: str) -> dict[str, Any]:
        return read(self.out).get(part, {})

    def _write(self, part: str, found: dict[str, Any]) -> None:
        head = {"part": part, "when": _now(), "quick": self.quick, "threads": self.threads, "repeats": self.repeats,
                "load": os.getloadavg()[0]}  # fmt: skip
        (self.out / f"{part}.json").write_text(json.dumps({**head, **found}, indent=1))


def work(
    job: dict[str, Any], answer: Path, *, blas_threads: int, cache: Path, limit: float | None = None
) -> dict[str, Any]:
    """Do a worker's job in a new process, for at most `limit` seconds; what went wrong is under "failed"."""
    answer.unlink(missing_ok=True)
    threads = {name: str(job["threads"]) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    blas = {name: str(blas_threads) for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.worker", json.dumps({**job, "out": str(answer)})]
    environment = {**os.environ, **threads, **blas, "NUMBA_CACHE_DIR": str(cache)}
    try:
        done = subprocess.run(
            command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failed": "timeout"}
    if done.returncode or not answer.exists():
        return {"failed": (done.stderr.strip().splitlines() or ["no answer"])[-1], "told": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(answer.read_text())
    answer.unlink()
    return found


def chosen(parts: tuple[str, ...]) -> list[str]:
    """The parts named, in the usual order; "d" stands for d1 and d2, nothing for all."""
    known = ["machine", "compile", *cases.CASES, "tiny", "memory", "scaling"]
    unknown = [part for part in parts if not any(name == part or name.rstrip("12") == part for name in known)]
    if unknown:
        msg = f"There is no part {unknown[0]!r}; there are {', '.join(known)}."
        raise SystemExit(msg)
    return [name for name in known if not parts or name in parts or name.rstrip("12") in parts]


def read(out: Path) -> dict[str, dict[str, Any]]:
    """Everything measured so far, by part."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}


def _facts(problem: Problem) -> dict[str, Any]:
    return {"title": problem.title, "measure": problem.measure, "floor": problem.floor, "n_cells": problem.n_cells,
            "main_cells": problem.tables[0].n_cells, "sizes": dict(problem.sizes)}  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
