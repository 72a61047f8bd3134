"""`gcmf evaluate`: whether each extra relation helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    project: Annotated[Path, typer.Argument(help="A project file, or a folder with a gcmf.toml.")],
    relation: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only the errors of this relation; may be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts that are hidden in turn.", min=2)] = 5,
    max_iter: Annotated[
        int | None, typer.Option(help="Sweeps of each fit, at most; else as the project file says, or 1000.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides what is hidden.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002 - as Typer wants it
) -> None:
    """Compare cross-validated errors of gCMF, CMF, gCMF without each other relation, one matrix, and biases only.

    Hidden cells are judged by the RMSE (numbers), by log-loss and AUC (0/1), or
    by the negative log-likelihood per cell (counts, and the numbers of a
    features section, whose columns have units of their own).
    """
    from gcmf.cli.evaluate_screen import evaluate_and_show  # noqa: PLC0415 - help must not wait for it

    chosen = {} if max_iter is None else {"max_iter": max_iter}
    evaluate_and_show(project, relation, n_folds=folds, chosen=chosen, seed=seed, as_json=as_json)
