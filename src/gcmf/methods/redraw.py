"""Cells that are drawn anew while the model changes much, and in the end stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.carried import Carried
from gcmf.model.posterior import given_of
from gcmf.model.zeros import Drawing

if TYPE_CHECKING:
    from collections.abc import Callable

    from gcmf.engines.base import Engine, State
    from gcmf.methods.base import Method
    from gcmf.methods.run import Run

#: Sweeps after which cells are drawn anew: often while the model changes much.
DRAW_AT = (2, 5, 10, 20, 40, 80)


class Redrawn(Carried):
    """A method over several draws of a run's cells, each by the model as it is by then; with the last one it arrives.

    Bounds of two draws differ by chance: when cells change, all of the trace moves to where the new ones have it.
    """

    carried = ("_method", "_n")

    def __init__(self, method: Method, run: Run, engine_of: Callable[[Drawing], Engine]) -> None:
        self._method, self._run, self._engine_of = method, run, engine_of
        self._n = 0

    @property
    def capped(self) -> bool:
        """Whether the method would have more factors than may be."""
        return self._method.capped

    def sweep(self) -> None:
        """One iteration."""
        self._method.sweep()

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Whether the method has arrived; if not, draw the cells anew if it is time to."""
        arrived = self._method.arrived(change, size, flat)
        self._n += 1
        if not arrived and self._n in DRAW_AT:
            self._run.change_engine(self._drawn)
        return arrived

    def _drawn(self, state: State) -> Engine:
        # A copy: the engine goes on with the arrays of the state.
        scales = given_of(self._run.spec, self._run.posterior).scales
        self._run.drawing = Drawing(self._n, state.copy(), scales)
        return self._engine_of(self._run.drawing)
