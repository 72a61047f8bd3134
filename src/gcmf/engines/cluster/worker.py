"""What a worker does: it holds the cells of some rows, with an engine of theirs, and answers questions about them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.base import State
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.threads import single_threaded_blas

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gcmf.engines.base import Array, Given
    from gcmf.engines.cluster.parts import Recipe


class Parameters(NamedTuple):
    """What is known of rows of one entity set: of their factors, and by layer of their biases and their noise."""

    mean: Array
    var: Array
    bias_mean: dict[int, Array]
    bias_var: dict[int, Array]
    precision: dict[int, Array]
    """Nothing where no relation has noise of rows or columns."""

    def cut(self, start: int, stop: int) -> Parameters:
        """Return those of some of the rows."""
        layers = ({n: array[start:stop] for n, array in group.items()} for group in self.groups())
        return Parameters(self.mean[start:stop], self.var[start:stop], *layers)

    def groups(self) -> tuple[dict[int, Array], ...]:
        """What there is by layer."""
        return self.bias_mean, self.bias_var, self.precision

    @staticmethod
    def of(state: State, e: int, layers: Sequence[int]) -> Parameters:
        """Return those of a set, which has these layers."""
        groups = ({n: group[n] for n in layers if group} for group in state.groups()[2:])
        return Parameters(state.mean[e], state.var[e], *groups)

    @staticmethod
    def join(pieces: Sequence[Parameters]) -> Parameters:
        """Return those of all rows of pieces that follow each other; nothing is copied where there is one."""
        if len(pieces) == 1:
            return pieces[0]
        groups = zip(*(piece.groups() for piece in pieces), strict=True)
        layers = ({n: np.concatenate([group[n] for group in same]) for n in same[0]} for same in groups)
        mean, var = (np.concatenate([piece[n] for piece in pieces]) for n in range(2))
        return Parameters(mean, var, *layers)


@dataclass(frozen=True)
class Question:
    """An operation of an engine on the rows that a worker holds."""

    operation: str
    given: Given
    """Of its priors, those of the rows that are asked for."""
    sets: dict[int, int]
    """Whose parameters come with it, those of the set itself and its partners, and in how many pieces each."""
    factor: int = 0
    """Which one `lean` is asked for."""

    @property
    def nbytes(self) -> int:
        """About how long it is: priors may be of each row."""
        return sum(array.nbytes for array in self.given.priors[0] if isinstance(array, np.ndarray))


class Held:
    """The cells of some rows. Where it is moved to, it is made again from its recipe."""

    def __init__(self, recipe: Recipe, n_threads: int) -> None:
        self._recipe, self._n_threads = recipe, n_threads
        self._problem = recipe.problem()
        self._engine: CpuEngine | None = None
        self._dtype: np.dtype[Any] | None = None
        # Of a question that was given up, the answer may still be on its way when it is asked again.
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, (self._recipe, self._n_threads)

    def __sizeof__(self) -> int:
        """What Dask weighs against computing something elsewhere."""
        return self._recipe.nbytes

    def answer(self, question: Question, pieces: Iterable[Parameters]) -> Any:  # noqa: ANN401 - by operation
        """Return what the engine says; of a sweep, the rows as well."""
        left = iter(pieces)
        known = {e: Parameters.join([next(left) for _ in range(n)]) for e, n in question.sets.items()}
        with self._lock, single_threaded_blas(), np.errstate(all="ignore"):
            state, e = self._state(known), self._recipe.e
            said: Any
            engine = self._engine_in(state.mean[e].dtype)
            engine.place(state)
            if question.operation == "sweep":
                swept = engine.sweep(e, question.given)
                said = self._rows(state), swept
            elif question.operation == "lean":
                said = engine.lean(e, question.factor, question.given)
            elif question.operation == "weigh":
                said = np.stack(engine.weigh(question.given), axis=-1)
            else:
                said = engine.measure(question.given)
            engine.place(State([], [], [], []))  # the parameters of partners are not to be kept alive
            return said

    def _engine_in(self, dtype: np.dtype[Any]) -> CpuEngine:
        """The engine of a precision; a fit changes it once at most."""
        if self._engine is None or self._dtype != dtype:
            self._dtype = dtype
            self._engine = CpuEngine(self._problem, dtype=dtype.name, n_threads=self._n_threads, part=self._recipe.part)
        return self._engine

    def _state(self, known: dict[int, Parameters]) -> State:
        """The state of the rows, in arrays of their own, and of their partners; nothing of others."""
        recipe, e = self._recipe, self._recipe.e
        # Of the set itself, these rows have come, or all.
        whole = len(known[e].mean) == recipe.sizes[e]
        own = slice(recipe.rows.start, recipe.rows.stop) if whole else slice(None)
        nothing, no_rows = np.zeros(0, known[e].mean.dtype), known[e].mean[:0]
        n_sets, n_layers = len(recipe.sizes), len(recipe.biased)
        precision = [nothing] * n_layers if known[e].precision else []
        state = State([no_rows] * n_sets, [no_rows] * n_sets, [nothing] * n_layers, [nothing] * n_layers, precision)
        for other, theirs in known.items():
            state.mean[other], state.var[other] = theirs.mean, theirs.var
            for group, arrays in zip(state.groups()[2:], theirs.groups(), strict=True):
                for layer, array in arrays.items():
                    group[layer] = array
        state.mean[e], state.var[e] = known[e].mean[own].copy(), known[e].var[own].copy()
        for group, arrays in zip(state.groups()[2:], known[e].groups(), strict=True):
            for layer, array in arrays.items():
                group[layer] = array[own].copy()
        return state

    def _rows(self, state: State) -> Parameters:
        return Parameters.of(state, self._recipe.e, [block.layer for block in self._recipe.blocks])


def answer(held: Held, question: Question, *pieces: Parameters) -> Any:  # noqa: ANN401 - by operation
    """Have a question answered: the task of a worker."""
    return held.answer(question, pieces)
