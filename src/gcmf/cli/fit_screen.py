"""A fit in the terminal: a live line while it runs, what came out when it is done."""

from __future__ import annotations

import time
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich import progress
from rich.table import Column
from rich.text import Text

from gcmf.cli.reading import waiting
from gcmf.cli.screen import console, show_json
from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.estimators.tables import structure_table
from gcmf.io.holdout import HeldOut, hide, score
from gcmf.io.project import read_project
from gcmf.storage import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo


class Live:
    """Sweep, time left at most, held-out error, factors alive, bound and its change: what matters most comes first."""

    def __init__(self, max_iter: int, held_out: HeldOut | None) -> None:
        self._held_out, self._max_iter = held_out, max_iter
        # One column: a narrow terminal cuts off the end of the line, and never the sweep or the time.
        whole = progress.TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        self._bars = progress.Progress(whole, console=console(stderr=True))
        self._task = self._bars.add_task("starting (a first fit compiles)", total=max_iter)
        self._first: float | None = None

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        self._first = self._first or time.monotonic()  # the first sweep may compile, and says nothing of the others
        parts = [f"sweep {info.iteration:,}/{self._max_iter:,}", *self._left(info.iteration)]
        if self._held_out is not None and self._held_out.errors:
            name, error = next(iter(self._held_out.errors.items()))
            parts.append(f"held-out {name} {error:.4g}")
        change = f" ({info.change:+.2g})" if info.iteration > 1 else ""
        parts += [f"{info.n_factors} factors", f"ELBO {info.elbo:,.1f}{change}"]
        self._bars.update(self._task, completed=info.iteration, description=", ".join(parts))

    def _left(self, done: int) -> list[str]:
        if self._first is None or done < 2:
            return []
        seconds = (time.monotonic() - self._first) / (done - 1) * (self._max_iter - done)
        return [f"≤ {timedelta(seconds=round(seconds))} left"]


def fit_and_show(path: Path, out: Path | None, *, holdout: float | None, chosen: dict[str, Any], as_json: bool) -> None:
    """Read, fit, save, report."""
    screen = console(stderr=True, wide=True)
    started = time.monotonic()
    screen.print(Text(f"Reading {path}"))
    with waiting("Reading") as reported:
        project = read_project(path, report=reported)
    data = project.collection
    target = out if out is not None else project.path.parent / project.output.model
    check(target, {name: entity.vocabulary for name, entity in data.entities.items()})
    screen.print(Text(repr(data)))
    options = {"random_state": 0, **project.options, **chosen}
    train, test = hide(data, holdout, seed=options["random_state"]) if holdout else (data, None)
    model = _fit(GCMF(**{**options, "progress": False}), train, test)
    model._units = {name: dict(own) for name, own in project.units.items()}
    model.save(target)
    report = {
        "model": str(target), "status": model.status_.name.lower(), "says": str(model.status_),
        "iterations": model.n_iter_, "elbo": model.elbo_, "factors": model.n_factors_active_, "cells": data.n_cells,
        "held_out_rmse": score(model, test) if test is not None else None,
        "seconds": round(time.monotonic() - started, 3),
    }  # fmt: skip
    if as_json:
        show_json(report)
    else:
        _show(report, model)


def _fit(model: GCMF, train: Collection, test: Collection | None) -> GCMF:
    held_out = HeldOut(model, train, test) if test is not None else None
    with Live(model.max_iter, held_out) as live, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        callbacks: list[Callable[[StepInfo], object]] = [one for one in (held_out, live) if one is not None]
        model.set_params(callbacks=callbacks).fit(train)
    return model.set_params(callbacks=())  # type: ignore[no-any-return]  # scikit-learn has no types


def _show(report: dict[str, Any], model: GCMF) -> None:
    screen = console(wide=True)
    roles = structure_table(model.fitted_)["role"].value_counts()
    kinds = ", ".join(f"{count} {role}" for role, count in roles.items()) or "none"
    screen.print(Text(f"{report['iterations']} sweeps in {report['seconds']:.1f} s, {report['says']}"))
    screen.print(Text(f"{report['factors']} active factors: {kinds}"))
    for name, error in (report["held_out_rmse"] or {}).items():
        screen.print(Text(f"held-out RMSE of {name}: {error:.4g}"))
    screen.print(Text.assemble("Written: ", (report["model"], "bold")), soft_wrap=True)
