"""`gcmf fit`: from a project file to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fit(
    project: Annotated[Path, typer.Argument(help="A project file, or a folder with a gcmf.toml.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model file; else as the project file says.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Hide this share of the cells, report the error on them, then fit all.", min=0, max=0.9),
    ] = None,
    refit: Annotated[  # noqa: FBT002 - as Typer wants it
        bool,
        typer.Option("--refit/--no-refit", help="After --holdout, fit all cells, or keep the model judged."),
    ] = True,
    max_iter: Annotated[
        int | None, typer.Option(help="Sweeps, at most; else as the project file says, or 1000.", min=1)
    ] = None,
    n_factors: Annotated[
        int | None, typer.Option(help="Factors to start from; else as the project file says, or 20.", min=1)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Decides where the fit starts and what is hidden; else random_state of the project file, or 0.", min=0
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no model.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Fit the collection that a project file describes. Ctrl-C once stops the fit and keeps the model.

    Hidden cells are judged by the RMSE (numbers), by log-loss and AUC (0/1), or
    by the negative log-likelihood per cell (counts, and the numbers of a
    features section, whose columns have units of their own).
    """
    from gcmf.cli.fit_screen import fit_and_show  # noqa: PLC0415 - help must not wait for it

    given = {"max_iter": max_iter, "n_factors": n_factors, "random_state": seed}
    chosen = {name: value for name, value in given.items() if value is not None}
    fit_and_show(project, out, holdout=holdout or 0.0, refit=refit, chosen=chosen, force=force, as_json=as_json)
