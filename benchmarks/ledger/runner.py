"""Fill in the ledger: one process per cell, one line of CSV each; what is there already is left alone."""

from __future__ import annotations

import csv
import json
import os
import tempfile
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.ledger.methods import METHODS, Job, Method, measure
from benchmarks.ledger.scores import MEASURES, score
from benchmarks.ledger.tasks import TASKS
from benchmarks.problem import PARTS, load, save
from benchmarks.run import ROOT, work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.ledger.tasks.base import Task
    from benchmarks.problem import Problem

CSV = ROOT / "docs" / "ledger" / "ledger.csv"
COLUMNS = ("task", "split", "method", "version", "data", "seconds", *MEASURES, "note", "when")
KEY = ("task", "split", "method", "version", "data")
#: Bytes of address space of one cell.
MEMORY = 12 * 2**30


@dataclass(frozen=True)
class Ledger:
    """Where lines go, and how a cell is computed."""

    path: Path = CSV
    threads: int = 2
    limit: float = 180.0
    """Seconds that a peer has for one cell; gcmf has ten times as many."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of GCMF; none: its defaults."""

    def run(
        self, tasks: Sequence[Task], methods: Sequence[Method], splits: Iterable[int], refresh: Sequence[str] = ()
    ) -> None:
        """Compute what is missing, first split first; `refresh` names methods whose lines are made anew."""
        versions = {method.name: self.version(method) for method in methods}
        done = {tuple(line[key] for key in KEY) for line in read(self.path) if line["method"] not in refresh}
        for split in splits:
            for task in tasks:
                if not task.there:
                    print(f"{task.name}: skipped, no data folder {task.needs!r} (set GCMF_DATA)", flush=True)
                    continue
                problem = task.build(split)
                head = {"task": task.name, "split": str(split), "data": digest(problem)}
                lines = [{**head, "method": method.name, "version": versions[method.name]} for method in methods]
                todo = [(method, line) for method, line in zip(methods, lines, strict=True)
                        if method.can(problem) and tuple(line[key] for key in KEY) not in done]  # fmt: skip
                self._cells(problem, todo)
        tidy(self.path)

    def version(self, method: Method) -> str:
        """That of the method, and options where they are not the defaults."""
        words = ", ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{method.version}, {words}" if words and method.package == "gcmf" else method.version

    def _cells(self, problem: Problem, todo: Sequence[tuple[Method, dict[str, str]]]) -> None:
        if not todo:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "problem.npz"
            save(problem, path)
            for method, line in todo:
                job = {"task": "ledger", "method": method.name, "input": str(path), "threads": self.threads,
                       "split": int(line["split"]), "options": dict(self.options), "memory": MEMORY}  # fmt: skip
                limit = self.limit * (10 if method.package == "gcmf" else 1)
                found = work(job, Path(folder) / "answer.json", blas_threads=self.threads, limit=limit,
                             cache=ROOT / "results" / "bench" / "numba-cache")  # fmt: skip
                note = found.pop("failed", "") or found.pop("note", "")
                numbers = {key: f"{found[key]:.6g}" for key in ("seconds", *MEASURES) if key in found}
                append(self.path, {**line, **numbers, "note": note, "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"})
                told = f"{numbers.get(TASKS[line['task']].measure, '')} {numbers.get('seconds', '?')} s {note}"
                print(f"{line['task']} {line['split']} {method.name}: {told}", flush=True)


def one(job: Mapping[str, Any]) -> dict[str, Any]:
    """What the worker does: one method on one problem."""
    problem = load(Path(job["input"]))
    told = Job(job["split"], job["threads"], job["options"])
    answers, seconds, facts = measure(METHODS[job["method"]], problem, told)
    note = ", ".join(f"{key} {value}" for key, value in facts.items())
    return {"seconds": seconds, "note": note, **score(problem, answers)}


def digest(problem: Problem) -> str:
    """A few characters that change with the cells, trained on or tested."""
    code = zlib.crc32(json.dumps(dict(problem.sizes)).encode())
    for table in problem.tables:
        for part in PARTS[:2]:
            value = getattr(table, part)
            for array in value if isinstance(value, tuple) else () if value is None else (value,):
                code = zlib.crc32(np.ascontiguousarray(array), code)
    return f"{code:08x}"


def read(path: Path) -> list[dict[str, str]]:
    """All lines; none where there is no file yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, line: Mapping[str, str]) -> None:
    """Write one line at the end, on disk before the next cell starts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(line)
        file.flush()
        os.fsync(file.fileno())


def tidy(path: Path) -> None:
    """Keep the last line of every task, split and method, in the order of the ledger."""
    tasks, methods = list(TASKS), list(METHODS)
    last = {(line["task"], int(line["split"]), line["method"]): line for line in read(path)}
    kept = [key for key in last if key[0] in tasks and key[2] in methods]
    kept.sort(key=lambda key: (tasks.index(key[0]), methods.index(key[2]), key[1]))
    if not kept:
        return
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    for key in kept:
        append(beside, last[key])
    beside.replace(path)
