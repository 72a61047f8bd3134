"""`python -m benchmarks run [--cases a,d] [--quick]`, `python -m benchmarks report`, `python -m benchmarks show`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report
from benchmarks.run import ROOT, Bench, read


def main() -> None:
    """Measure, or say what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=("run", "show", "report"), help="measure; print the tables; write docs/")
    parser.add_argument("--cases", default="", help="parts to measure, as a,d,scaling; all if not given")
    parser.add_argument("--methods", default="", help="only rows whose name starts so, as gcmf,cmfrec")
    parser.add_argument("--repeats", type=int, default=3, help="fits per row, if one takes less than a minute")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small and short: tries the machinery")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench", help="folder of the JSON files")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where report writes")
    options = parser.parse_args()
    cases, methods = (tuple(part for part in text.split(",") if part) for text in (options.cases, options.methods))
    if options.what == "run":
        repeats = 1 if options.quick else options.repeats
        Bench(options.out, options.threads, repeats, quick=options.quick, methods=methods).run(cases)
    results = read(options.out)
    if not results:
        parser.exit(1, f"nothing measured yet in {options.out}: python -m benchmarks run\n")
    if options.what == "report":
        report.write(results, options.docs)
        print(f"wrote {options.docs / 'benchmarks.md'} and {options.docs / 'benchmarks'}")
    else:
        print(report.text(results))


if __name__ == "__main__":
    main()
