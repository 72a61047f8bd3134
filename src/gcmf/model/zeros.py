"""Relations that are fitted from some of their zeros, which a model draws that has been fitted so far."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import array_like, part, refuse
from gcmf.data.zeros import Drawn, draw_zeros, n_blanks, n_wanted
from gcmf.engines.base import Scales
from gcmf.model.packing import pack, pack_state, unpack_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.engines.base import Problem, State
    from gcmf.model.spec import Spec


class Drawing(NamedTuple):
    """For whom zeros were drawn: by these three the same draw can be made again."""

    n: int
    state: State
    scales: Scales | None

    def pack(self) -> dict[str, Any]:
        """As plain values."""
        return {"n": self.n, "state": pack_state(self.state), "scales": pack(self.scales)}

    @classmethod
    def unpack(cls, spec: Spec, values: dict[str, Any]) -> Drawing:
        """What `pack` gave, of a model of this spec."""
        n, states, scales = (part(values, name) for name in ("n", "state", "scales"))
        if type(n) is not int or n < 0:
            refuse("drawing", "has no number")
        width = getattr(states[0][0] if isinstance(states, list) and states and states[0] else None, "shape", (0, 0))
        state = unpack_state(spec, width[-1], states)
        if (scales is not None) != spec.scaled:
            refuse("scales", "are of another model")
        if scales is not None:
            like = np.zeros((len(spec.ends), width[-1]))
            mean, var = (array_like(like, part(scales, name), name) for name in ("mean", "var"))
            scales = Scales(mean, var, array_like(like.astype(np.int64), part(scales, "mates"), "mates"))
            if scales.mates.size and not 0 <= scales.mates.min() <= scales.mates.max() < width[-1]:
                refuse("mates", "names factors that are not there")
        return cls(n, state, scales)


class Zeros:
    """Draws zeros of the relations that have too many to visit, where cells need visits: those of least squares do not.

    The same state and number give the same draw, whatever the number of threads.
    """

    def __init__(self, data: Collection, spec: Spec, problem: Problem, rng: np.random.Generator) -> None:
        self._spec, self._problem = spec, problem
        self._cells: dict[int, Cells] = {}
        self.drawn: dict[str, Drawn] = {}
        """How many zeros the last draw has, by relation."""
        for m, (relation, likelihood) in enumerate(zip(spec.schema.relations, spec.likelihoods, strict=True)):
            cells = data.relations[relation.name].cells
            if cells.filled and relation.symmetric is None and not likelihood.least_squares and n_wanted(cells):
                self._cells[m] = cells
        # Whoever has nothing to draw takes nothing from the source of random numbers.
        self._seed: Any = rng.bit_generator.seed_seq.spawn(1)[0] if self._cells else None  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        return bool(self._cells)

    def problem(self, drawing: Drawing | None, n_threads: int) -> Problem:
        """Return the problem with zeros drawn as a state of the model asks for them; without one, all alike."""
        n, state, scales = (0, None, None) if drawing is None else drawing
        sides = {}
        with ThreadPoolExecutor(n_threads) as pool:
            for m, cells in self._cells.items():
                seed = np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, n, m))
                drawn = draw_zeros(cells, self._expected(state, m, scales), seed, run=pool.map)
                sides[m] = drawn.rows, drawn.cols
                n_listed = cells.n_cells - n_blanks(cells)
                self.drawn[self._spec.schema.relations[m].name] = Drawn(drawn.n_cells - n_listed, n_blanks(cells))
        blocks = tuple(
            tuple(replace(b, cells=sides[b.relation][b.side]) if b.relation in sides else b for b in of_set)
            for of_set in self._problem.blocks
        )
        return replace(self._problem, blocks=blocks)

    def _expected(
        self, state: State | None, m: int, scales: Scales | None
    ) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
        """⟨exp θ⟩ = exp(m + v/2), at most 1: by how much a zero's loss, softplus or less than that, pulls at θ.

        Without v, zeros would be overlooked where the model does not know what to expect, and it would then expect
        too much of them.
        """
        (r, c), (_, cols) = self._spec.ends[m], self._cells[m].members()
        if state is None:
            level = np.float32(np.exp(self._spec.offset[m]))
            return lambda rows: np.full((len(rows), len(cols)), level)
        p, p_var, d, d_var = (a[cols] for a in (state.mean[c], state.var[c], state.bias_mean[2 * m + 1],
                                                state.bias_var[2 * m + 1]))  # fmt: skip
        if scales is not None:
            p, p_var = scales.scaled(m, 0, p, p_var)
        partners = np.concatenate([p, 0.5 * p_var, 0.5 * p**2], axis=1).astype(np.float32).T
        theirs = (d + 0.5 * d_var + self._spec.offset[m]).astype(np.float32)

        def expected(rows: NDArray[Any]) -> NDArray[np.float32]:
            u, u_var = state.mean[r][rows], state.var[r][rows]
            theta = np.concatenate([u, u**2 + u_var, u_var], axis=1).astype(np.float32) @ partners
            theta += (state.bias_mean[2 * m][rows] + 0.5 * state.bias_var[2 * m][rows]).astype(np.float32)[:, None]
            theta += theirs
            np.minimum(theta, 0.0, out=theta)
            return np.asarray(np.exp(theta, out=theta))

        return expected
