"""The page: a table of each task's deciding measure, paired differences, verdicts, rankings, intervals and times."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from benchmarks import machine
from benchmarks.ledger.methods import METHODS
from benchmarks.ledger.paired import ERRORS, MARGIN, Values
from benchmarks.ledger.picture import draw
from benchmarks.ledger.scores import LEVELS
from benchmarks.ledger.tasks import TASKS
from benchmarks.report import table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.ledger.paired import Lines

WORDS = {"rmse": "RMSE", "log_loss": "log-loss", "neg_log_lik": "−log-likelihood per cell"}
#: Of all rows of a peer, the share in which it may be better.
ALLOWED = 0.1
_INTRODUCTION = """\
# Ledger: how well gcmf predicts

Every data set at hand, the same splits for every method. gcmf is used as it comes, `GCMF(random_state=split)`; *common*
is `sharing='common'`, *alone* knows of no relation but the target, *bias* has no factors at all. `make ledger` computes
what is missing (each cell in a process of its own, at most three minutes for a peer) and writes this page; `python -m
benchmarks.ledger run --tasks ml-100k --methods gcmf,alone` computes parts, `list` says the names.

Numbers are means over splits. Less is better: RMSE for real values, log-loss for 0/1, minus the log-likelihood per cell
for counts. Differences are paired, 100 · (method − gcmf) / gcmf on the same split, ± their standard error over splits:
**above zero gcmf is better**. Bold: the other is better by more than {margin:g}%, and by more than {errors:g} errors.
Every line is in [ledger.csv](ledger/ledger.csv), means and differences are in [summary.csv](ledger/summary.csv).

{versions}. Last line {when} UTC. {stale}"""
_BUSY = """\
Of one fit, other work going on, at various dates: orders of magnitude. Times to compare are in [the
benchmarks](benchmarks.md)."""
_NOTES = """\
cmfrec and implicit fit squares, not probabilities: of 0/1 cells cmfrec's values are cut to [0.001, 0.999], and
implicit, which only ranks, has no log-loss. For counts, cmfrec fits log(1 + x) with normal errors. Samplers and cmfrec
get what touches the target as side information, real numbers standardized (samplers: up to 2,000 columns); mofapy2 gets
views of unit variance, as its documentation asks. Intervals: normal ones with the
predicted deviation, for counts negative binomial ones with the predicted moments; of *bias*, *ridge* and *cmfrec-cv*
the deviation is that of the cells by which they chose their penalties. Times are of one fit (with all that is tried to
choose settings) on a shared machine: compare orders of magnitude."""


def write(lines: Lines, docs: Path) -> None:
    """Write docs/ledger.md, docs/ledger/summary.csv and docs/ledger/ledger.png."""
    values = Values(lines)
    (docs / "ledger").mkdir(parents=True, exist_ok=True)
    (docs / "ledger.md").write_text(text(values), encoding="utf-8")
    with (docs / "ledger" / "summary.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ("task", "measure", "method", "splits", "mean", "difference_percent", "error_percent", "seconds")
        )
        writer.writerows(_summary(values))
    draw(values, docs / "ledger" / "ledger.png")


def text(values: Values) -> str:
    """The page."""
    tasks = values.tasks()
    groups = {name: [m for m in values.methods() if METHODS[m].group in kinds]
              for name, kinds in (("own", ("own", "truth")), ("peers", ("peer", "sampler")))}  # fmt: skip
    measured = [m for m in groups["peers"] if any(values.difference(task, m) for task in tasks)]
    parts = [
        _introduction(values),
        "![Paired differences in percent](ledger/ledger.png)",
        "## Verdicts",
        _verdicts(values),
        "## gcmf beside itself",
        table(("task", "measure", "splits", *groups["own"]), [_row(values, t, groups["own"]) for t in tasks]),
    ]
    if measured:
        parts += [
            "## Beside its peers",
            table(("task", "gcmf", *measured), [_peers(values, t, measured) for t in tasks]),
        ]
    parts += ["## 0/1: ranking", "Area under the ROC curve / average precision.", _ranking(values)]
    parts += ["## Intervals", "Shares of held-out cells within central 50 / 80 / 95% intervals.", _intervals(values)]
    parts += ["## Seconds", _BUSY, table(("task", *values.methods()), [_seconds(values, t) for t in tasks])]
    parts += ["## What was done", _NOTES, _list({t: TASKS[t].title for t in tasks}),
              _list({m: METHODS[m].words for m in values.methods()}), _failures(values)]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _introduction(values: Values) -> str:
    lines = values.lines.values()
    versions = sorted({line["version"] for line in lines if line["version"].startswith("gcmf ")})
    packages = [f"{name} {machine.version(name)}" for name in machine.PACKAGES[1:] if machine.version(name)]
    stale = f"**Lines of gcmf are of {len(versions)} versions of its code.**" if len(versions) > 1 else ""
    said = ", ".join([versions[-1] if versions else "gcmf ?", *packages])
    when = max((line["when"] for line in lines), default="?")
    return _INTRODUCTION.format(margin=MARGIN, errors=ERRORS, versions=said, when=when, stale=stale).rstrip()


def _verdicts(values: Values) -> str:
    own = list(values.differences("own"))
    beaten = [one for one in own if one.beaten]
    single = sum(one.error is None for one in own)
    said = [f"(1) gcmf is never worse than *common*, *alone* or *bias* by more than {MARGIN:g}% and {ERRORS:g} errors: "
            + ("**met**" if own and not beaten else f"**not met** on {len({one.task for one in beaten})} of "
               f"{len(values.tasks())} tasks") + f" ({len(own)} comparisons"
            + (f", {single} of a single split" if single else "") + ")."]  # fmt: skip
    said += [f"    - {one.task}: {one.method} {one}%" for one in sorted(beaten, key=lambda one: one.mean)]
    said.append(f"(2) No peer, samplers aside, is better by as much on more than {ALLOWED:.0%} of its rows:")
    for method in values.methods():
        if METHODS[method].group in ("peer", "sampler"):
            rows = [one for one in values.differences(METHODS[method].group) if one.method == method]
            better = [one for one in rows if one.beaten]
            if not rows:
                continue
            met = "sampler" if METHODS[method].group == "sampler" else (
                "**met**" if len(better) <= ALLOWED * len(rows) else "**not met**")  # fmt: skip
            names = ": " + ", ".join(f"{one.task} {one}%" for one in better) if better else ""
            said.append(f"    - {method}, {met}: better on {len(better)} of {len(rows)}{names}")
    return "\n".join(line if line.startswith("    ") else f"- {line}" for line in said)


def _row(values: Values, task: str, methods: list[str]) -> tuple[str, ...]:
    measure = TASKS[task].measure
    return (task, WORDS[measure], str(len(values.of(task, "gcmf", measure))),
            *(_cell(values, task, method) for method in methods))  # fmt: skip


def _peers(values: Values, task: str, methods: list[str]) -> tuple[str, ...]:
    return (task, *(_cell(values, task, method) for method in ("gcmf", *methods)))


def _cell(values: Values, task: str, method: str) -> str:
    """Mean and paired difference; bold where gcmf is beaten; why there is none."""
    mean = values.mean(task, method, TASKS[task].measure)
    if mean is None:
        notes = {line["note"] for (t, m, _), line in values.lines.items() if (t, m) == (task, method)}
        return "timeout" if "timeout" in notes else "ranks only" if method == "implicit" and notes else (
            "failed" if notes else "")  # fmt: skip
    difference = values.difference(task, method)
    if method == "gcmf" or difference is None:
        return f"{mean:.4g}" if mean >= 1000 else f"{mean:.4f}"
    said = f"{mean:.4f} ({difference}%)"
    return f"**{said}**" if difference.beaten and METHODS[method].group != "truth" else said


def _ranking(values: Values) -> str:
    tasks = [task for task in values.tasks() if TASKS[task].kind == "bernoulli"]
    methods = [m for m in values.methods() if any(values.of(task, m, "auc") for task in tasks)]
    return table(("task", *methods), [
        (task, *(_joined(values, task, method, ("auc", "average_precision"), ".3f") for method in methods))
        for task in tasks
    ])  # fmt: skip


def _intervals(values: Values) -> str:
    names = [f"cover{level}" for level in LEVELS]
    tasks = [task for task in values.tasks() if values.of(task, "gcmf", names[0])]
    methods = [m for m in values.methods() if any(values.of(task, m, names[0]) for task in tasks)]
    return table(("task", *methods), [
        (task, *(_joined(values, task, method, names, ".1%") for method in methods)) for task in tasks
    ])  # fmt: skip


def _joined(values: Values, task: str, method: str, measures: list[str] | tuple[str, ...], form: str) -> str:
    found = [values.mean(task, method, measure) for measure in measures]
    return " / ".join(format(one, form) for one in found if one is not None)


def _seconds(values: Values, task: str) -> tuple[str, ...]:
    found = [values.mean(task, method, "seconds") for method in values.methods()]
    return (task, *("" if one is None else f"{one:.2g}" if one < 10 else f"{one:.0f}" for one in found))


def _failures(values: Values) -> str:
    failed = [f"- {task}, split {split}, {method}: {line['note'][:120]}"
              for (task, method, split), line in values.lines.items() if not line.get("seconds")]  # fmt: skip
    return "\n".join(["Without an answer:", "", *sorted(failed)]) if failed else ""


def _list(words: dict[str, str]) -> str:
    return "\n".join(f"- *{name}*: {said}" for name, said in words.items())


def _summary(values: Values) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for task in values.tasks():
        measure = TASKS[task].measure
        for method in values.methods():
            found, difference = values.of(task, method, measure), values.difference(task, method)
            if not found or difference is None:
                continue
            error = "" if difference.error is None else f"{difference.error:.4f}"
            rows.append((task, measure, method, len(found), f"{values.mean(task, method, measure):.6g}",
                         f"{difference.mean:.4f}", error, f"{values.mean(task, method, 'seconds'):.4g}"))  # fmt: skip
    return rows
