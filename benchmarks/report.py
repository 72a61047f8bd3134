"""The table of every case, the list of targets, and a picture of error against time, from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.cases import CASES
from benchmarks.rows import reaches, row, seconds
from benchmarks.targets import targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.rows import Results, Row

HEADINGS = ("method", "settings", "prepare, s", "fit, s", "held-out error", "peak MB", "fit ÷ gcmf",
            "gcmf reaches its error in, s", "of its time")  # fmt: skip
_INTRODUCTION = """\
# Benchmarks

gcmf beside the tools that people use today, on the same data, one after the other, each in a process of its own, with
{threads} threads. `make bench` runs everything and writes this page; `make bench CASES=a,d` reruns parts.

{when}, {processor}, {cores} cores, {memory_gib} GiB, Python {python}.
{versions}.

Times are medians of {repeats} fits (of one where a fit takes more than a minute). *prepare* brings plain arrays into
the form a tool takes; for gcmf it builds the `Collection`. *peak MB* is what the process needs at most above the input
arrays, for preparing and fitting. *fit ÷ gcmf* compares whole fits, of which gcmf's runs until its bound is flat; the
last two columns say when gcmf's held-out error was as low as the final one of the peer, and what share of the peer's
time that is. Settings are those that each tool's documentation recommends; rows called *tuned* were set by hand where
that helps. Compare ratios, not seconds: machines differ."""


def rows_of(results: Results, case: str) -> Iterator[tuple[str, ...]]:
    """The cells of a case's table, as text."""
    own = row(results, case, "gcmf")
    for one in results[case]["rows"]:
        if "seconds" not in one:
            yield (one["label"], one["words"], "", one.get("failed", "failed"), *[""] * 5)
            continue
        error = one["error"]
        yield (
            one["label"], one["words"], _number(one["prepare_seconds"]), _number(seconds(one)),
            "no values" if error is None else f"{error:.4f}", f"{one['peak_bytes'] / 1e6:.0f}",
            _number(seconds(one) / seconds(own)) if own else "", *_reached(own, one),
        )  # fmt: skip


def _reached(own: Row | None, one: Row) -> tuple[str, str]:
    if own is None or one is own or one["error"] is None:
        return "", ""
    when = reaches(own, one["error"])
    return ("never", "") if when is None else (_number(when), f"{when / seconds(one):.1%}")


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def text(results: Results) -> str:
    """Everything as one page of Markdown, for the screen and for docs/benchmarks.md."""
    parts = [_introduction(results)]
    if any(part.get("quick") for part in results.values()):
        parts.insert(0, "**A trial of the machinery (--quick), not a measurement.**")
    parts += ["## Targets", table(("", "asked", "measured", "met", "detail"), _target_rows(results))]
    for case in CASES:
        if case in results:
            parts += list(_case(results, case))
    return "\n\n".join([*parts, _compile(results)]).rstrip() + "\n"


def _introduction(results: Results) -> str:
    machine = results.get("machine", {})
    newest = max((part for part in results.values()), key=lambda part: str(part["when"]))
    versions = ", ".join(f"{name} {number}" for name, number in machine.get("versions", {}).items() if number)
    facts = {key: machine.get(key, "?") for key in ("processor", "cores", "memory_gib", "python")}
    return _INTRODUCTION.format(when=newest["when"], threads=newest["threads"], repeats=newest["repeats"],
                                versions=versions or "?", **facts)  # fmt: skip


def _target_rows(results: Results) -> list[tuple[str, ...]]:
    words = {True: "yes", False: "**no**", None: "?"}
    return [(t.number, t.asked, t.measured, words[t.met], t.detail) for t in targets(results)]


def _case(results: Results, case: str) -> Iterator[str]:
    found = results[case]
    floor = "" if found["floor"] is None else f"; the truth has {found['floor']:.4f}"
    yield f"## ({case[0]}) {found['title']}"
    own = row(results, case, "gcmf")
    facts = own["facts"] if own else None
    how = f" gcmf: {facts['iterations']} sweeps, {facts['factors']} factors, {facts['status']}." if facts else ""
    yield f"{found['n_cells']:,} observed cells. Error: {found['measure']}{floor}.{how} {_when(found['rows'])}."
    yield table(HEADINGS, list(rows_of(results, case)))
    yield f"![Error against time](benchmarks/{case}.png)"


def _when(rows: list[Row]) -> str:
    """Say when the rows were measured; those that were not measured together are named."""
    by_time: dict[str, list[str]] = {}
    for one in rows:
        by_time.setdefault(str(one.get("when", "?"))[:16], []).append(one["label"])
    if len(by_time) == 1:
        return f"Measured {next(iter(by_time))} UTC"
    return "Ended, UTC: " + "; ".join(f"{time} {', '.join(labels)}" for time, labels in by_time.items())


def _compile(results: Results) -> str:
    found = results.get("compile", {})
    if "first" not in found.get("cold", {}):
        return ""
    cold, cached = found["cold"], found["cached"]
    return (
        f"## Compile time\n\nFrom `import gcmf` to the end of a first small fit: {cold['first']:.1f} s with nothing"
        f" compiled, {cached['first']:.1f} s with compiled code in the cache; the same fit again:"
        f" {cold['second']:.3f} s. No time above contains any of this."
    )


def table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows of text as Markdown."""
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def write(results: Results, docs: Path) -> None:
    """Write docs/benchmarks.md and docs/benchmarks/*.png."""
    (docs / "benchmarks").mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks.md").write_text(text(results), encoding="utf-8")
    for case in CASES:
        if case in results:
            draw(results[case], docs / "benchmarks" / f"{case}.png")


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Held-out error against seconds of fitting, both axes logarithmic where that helps."""
    import matplotlib as mpl  # noqa: PLC0415 - only here

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for one in found["rows"]:
        if one.get("error") is None:
            continue
        way = sorted(one.get("way", []))
        line = axes.plot([s for s, _ in way], [e for _, e in way], lw=2.0 if one["peer"] == "gcmf" else 1.2,
                         label=one["label"])[0]  # fmt: skip
        axes.plot(seconds(one), one["error"], "o", color=line.get_color())
    final = [one["error"] for one in found["rows"] if one.get("error") is not None]
    if final:
        low, high = min(final), max(final)
        room = max(high - low, 0.02 * high)
        axes.set_ylim(low - 0.15 * room, high + 1.2 * room)
    axes.set(xscale="log", xlabel="seconds of fitting", ylabel="held-out error", title=found["title"])
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
