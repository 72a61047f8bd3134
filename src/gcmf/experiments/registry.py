"""Every experiment of the paper, by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gcmf.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from gcmf.experiments.base import Experiment

MODULES = ("figure2", "likelihood", "vb_vs_map", "genes", "faces", "recommenders")
"""In the order of the paper; each module holds an `EXPERIMENT`."""


def experiments() -> tuple[Experiment, ...]:
    """Return all experiments."""
    return tuple(import_module(f"gcmf.experiments.{name}").EXPERIMENT for name in MODULES)


def find(name: str) -> Experiment:
    """Return the experiment of this name.

    Raises
    ------
    OptionError
        When there is none.
    """
    known = {one.name: one for one in experiments()}
    if name not in known:
        hint = did_you_mean(name, list(known))
        msg = f"There is no experiment {name!r}; there are {', '.join(known)}, and all.{hint}"
        raise OptionError(msg)
    return known[name]
