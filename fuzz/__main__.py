"""`python -m fuzz [--n 1000] [--first 0]`, or `python -m fuzz --seed 123 [--kind answers] [--dtype float32]`.

Of the kinds, "ordinary" and "hostile" are fits in both precisions, "answers" compares what a model answers.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pandas as pd

from fuzz import answers
from fuzz.cases import draw
from fuzz.checks import MARGINS, Outcome, run
from fuzz.worlds import draw_world
from gcmf.engines.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KINDS = ("ordinary", "hostile", "answers")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases; 1 if any has a fault."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="seeds per kind and precision")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this seed, told at length")
    parser.add_argument("--kind", choices=KINDS, help="only these cases")
    parser.add_argument("--dtype", choices=tuple(MARGINS), help="only this precision")
    parser.add_argument("--jobs", type=int, default=available_threads(), help="processes")
    options = parser.parse_args(argv)
    seeds = range(options.first, options.first + options.n) if options.seed is None else [options.seed]
    kinds, dtypes = [options.kind] if options.kind else KINDS, [options.dtype] if options.dtype else tuple(MARGINS)
    tasks = [(kind, seed, dtype) for kind in kinds if kind != "answers" for dtype in dtypes for seed in seeds]
    asked = list(seeds) if "answers" in kinds else []
    if options.seed is not None:
        outcomes = [_tell(run(*task)) for task in tasks]
        worlds = [_tell_answers(answers.check(seed)) for seed in asked]
    else:
        # Threads and fork do not go together.
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            fits = pool.map(run, *zip(*tasks, strict=True), chunksize=8) if tasks else iter(())
            checked = pool.map(answers.check, asked, chunksize=4)
            outcomes, worlds = _counted(fits, len(tasks)), _counted(checked, len(asked))
    print(*([summary(outcomes)] if outcomes else []), *([answers.table(worlds)] if worlds else []), sep="\n\n")
    return int(any(outcome.faults for outcome in (*outcomes, *worlds)))


def _counted(results: Iterator[Any], n: int) -> list[Any]:
    done = []
    for result in results:
        done.append(result)
        if sys.stderr.isatty():
            print(f"\r{len(done)} of {n}", end="", file=sys.stderr, flush=True)
    return done


def _tell(outcome: Outcome) -> Outcome:
    print(f"{outcome.kind} {outcome.seed} {outcome.dtype}: {outcome.word}\n{draw(outcome.kind, outcome.seed)[1]}")
    print(f"  {outcome.status}, worst fall {outcome.fall:.2e}", *outcome.faults, outcome.trace, sep="\n  ")
    return outcome


def _tell_answers(checked: answers.Checked) -> answers.Checked:
    print(f"answers {checked.seed}\n{draw_world(checked.seed)}\n{checked.trace}")
    return checked


def summary(outcomes: Sequence[Outcome]) -> str:
    """A table of counts by kind and precision, then every seed with a fault."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.kind, outcome.dtype), []).append(outcome)
    rows = [{"kind": kind, "dtype": dtype, **_counts(group)} for (kind, dtype), group in groups.items()]
    table = pd.DataFrame(rows).to_string(index=False)
    failed = [o for group in groups.values() for o in sorted(group, key=lambda o: (o.word, o.seed)) if o.faults]
    lines = [f"  {o.kind} {o.dtype} --seed {o.seed} ({o.word}): {'; '.join(o.faults)[:300]}" for o in failed]
    return "\n".join([table, "", f"{len(failed)} cases with faults", *lines])


def _counts(group: Sequence[Outcome]) -> dict[str, object]:
    status = Counter(o.status for o in group)
    faults = Counter(word for o in group for word in {fault.split()[0].strip(":") for fault in o.faults})
    return {
        "fits": len(group),
        "converged": status["CONVERGED"] + status["ALL_PRUNED"],
        "max_iter": status["MAX_ITER"],
        "refused": status["REFUSED"],
        "stopped": status["ELBO_DECREASED"] + status["NONFINITE"],
        "falls": faults["fell"],
        "worst fall": f"{max(o.fall for o in group):.1e}",
        "non-finite": faults["non-finite"],
        "raised": faults["raised"],
        "warned": faults["warned"],
    }


if __name__ == "__main__":
    sys.exit(main())
