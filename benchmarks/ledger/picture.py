"""One row per task, one mark per method: paired differences to gcmf in percent, with their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ledger.paired import ERRORS, MARGIN

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.ledger.paired import Values

#: Color and mark of each method: Okabe and Ito's colors, and no two that share one share a mark.
LOOKS = {
    "common": ("#0072B2", "o"), "alone": ("#D55E00", "s"), "bias": ("#000000", "x"), "cmfrec": ("#56B4E9", "v"),
    "cmfrec-cv": ("#009E73", "^"), "mofapy2": ("#CC79A7", "D"), "ridge": ("#E69F00", "P"), "myfm": ("#000000", "*"),
    "smurff": ("#0072B2", "<"), "draws": ("#D55E00", "*"), "truth": ("#999999", "|"),
}  # fmt: skip


def draw(values: Values, path: Path) -> None:
    """Write the picture: right of zero gcmf is better."""
    import matplotlib as mpl  # noqa: PLC0415 - only here

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    tasks = values.tasks()
    methods = [name for name in values.methods() if name in LOOKS]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.36 * max(len(tasks), 3)), layout="constrained")
    axes.axvspan(-MARGIN, MARGIN, color="#dddddd", lw=0, zorder=0)
    axes.axvline(0.0, color="#666666", lw=0.8, zorder=1)
    for n, method in enumerate(methods):
        color, mark = LOOKS[method]
        offset = 0.5 * ((n + 0.5) / len(methods) - 0.5)
        found = [(y + offset, values.difference(task, method)) for y, task in enumerate(tasks)]
        shown = [(y, one) for y, one in found if one is not None]
        means, errors = [one.mean for _, one in shown], [ERRORS * (one.error or 0.0) for _, one in shown]
        axes.errorbar(means, [y for y, _ in shown], xerr=errors, fmt=mark, color=color, ms=5, lw=1.0, label=method)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.7)
    ticks = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300)
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    axes.set_yticks(range(len(tasks)), tasks)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.grid(axis="y", color="#eeeeee", lw=6, zorder=-1)
    axes.set_xlabel(f"percent worse than gcmf (left: better), ± {ERRORS:g} paired errors; gray: ± {MARGIN:g}%")
    axes.legend(frameon=False, fontsize=8, ncols=max(len(methods), 1), loc="lower center", bbox_to_anchor=(0.45, 1.0))
    figure.savefig(path, dpi=110)
    plt.close(figure)
