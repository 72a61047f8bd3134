"""`python -m benchmarks.ledger run [--tasks ml-100k,cll] [--methods gcmf,alone]`, then `report`; `list` says names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeVar

from benchmarks.ledger import report
from benchmarks.ledger.methods import METHODS
from benchmarks.ledger.runner import CSV, Ledger, read
from benchmarks.ledger.tasks import TASKS

_Named = TypeVar("_Named")
FAST = 20
"""Sweeps of a fit with --quick."""


def main() -> None:
    """Measure, or say what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("what", choices=("run", "report", "list"), help="compute what is missing; write docs/; names")
    parser.add_argument(
        "--tasks", default="", help="only those whose names start so, as ml,cll-drugs; all if not given"
    )
    parser.add_argument("--methods", default="", help="only these, as gcmf,common; all if not given")
    parser.add_argument("--splits", type=int, default=5, help="splits 0 to this many, less one")
    parser.add_argument("--refresh", default="", help="methods whose lines are made anew, as gcmf,alone")
    parser.add_argument("--n-factors", type=int, help="of gcmf, instead of its default")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds of a peer per cell")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small tasks, one split, short fits: tries the machinery")
    parser.add_argument("--out", type=Path, default=CSV, help="the CSV of all lines")
    parser.add_argument("--docs", type=Path, default=CSV.parents[1], help="where report writes")
    options = parser.parse_args()
    tasks = chosen(TASKS, options.tasks, prefix=True)
    methods = chosen(METHODS, options.methods)
    if options.quick:
        tasks, options.splits = [task for task in tasks if task.quick], 1
    if options.what == "list":
        print("\n".join([*(f"{task.name:26} {task.title}" for task in tasks), "",
                         *(f"{method.name:26} {method.words}" for method in methods)]))  # fmt: skip
        return
    if options.what == "run":
        told = {"n_factors": options.n_factors} if options.n_factors else {}
        told |= {"max_iter": FAST} if options.quick else {}
        ledger = Ledger(options.out, options.threads, options.limit, told)
        ledger.run(tasks, methods, range(options.splits), [name for name in options.refresh.split(",") if name])
        return
    lines = read(options.out)
    if not lines:
        parser.exit(1, f"nothing measured yet in {options.out}: python -m benchmarks.ledger run\n")
    report.write(lines, options.docs)
    print(f"wrote {options.docs / 'ledger.md'} and {options.docs / 'ledger'}")


def chosen(known: dict[str, _Named], text: str, *, prefix: bool = False) -> list[_Named]:
    """Those named, in the usual order; all if none is."""
    names = [name for name in text.split(",") if name]
    fits = {
        name: [key for key in known if (key.startswith(name) if prefix and name not in known else key == name)]
        for name in names
    }
    for name, found in fits.items():
        if not found:
            msg = f"There is no {name!r}; there are {', '.join(known)}."
            raise SystemExit(msg)
    wanted = {key for found in fits.values() for key in found}
    return [one for key, one in known.items() if not names or key in wanted]


if __name__ == "__main__":
    main()
