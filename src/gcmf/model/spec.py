"""What is fixed before the first sweep: sizes, counts, scales, priors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from gcmf.data.cells import HOLE
from gcmf.engines.base import Block, Problem
from gcmf.errors import DataError, OptionError
from gcmf.gamma import with_mode
from gcmf.likelihoods import Likelihood, ParameterPrior, resolve
from gcmf.model.noise import cells_of_noise
from gcmf.model.regression import Design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.data.covariates import Covariates
    from gcmf.data.schema import Schema
    from gcmf.options import FitOptions, Keep, Priors


@dataclass(frozen=True)
class Spec:
    """The model of one collection under one set of options."""

    schema: Schema
    likelihoods: tuple[Likelihood, ...]
    ends: tuple[tuple[int, int], ...]
    """(row set, column set) of each relation."""
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    """Cells are fitted as (x − center)/scale, (M,)."""
    largest: NDArray[np.float64]
    """The largest cell of each relation, (M,)."""
    sizes: tuple[int, ...]
    """Entities per set."""
    observed: tuple[NDArray[np.bool_], ...]
    """Per set: which entities have a cell in some relation."""
    n_entities: NDArray[np.float64]
    """d_e: entities with at least one cell, (E,)."""
    n_cells: NDArray[np.float64]
    """n_m: cells per relation, (M,); one of weight 2 is two."""
    n_weighed: NDArray[np.float64]
    """How many cells those stand for, (M,): a zero may count several times."""
    in_layer: tuple[NDArray[np.bool_], ...]
    """Per bias layer (2 × relation + side): which entities have a cell in its relation."""
    biased: tuple[bool, ...]
    offset: NDArray[np.float64]
    """Fixed part of θ per relation, (M,): where a cell has the relation's mean. Zero for centered Gaussian cells."""
    constant: float
    """Sum of the terms of the log-likelihood that depend on the cells alone."""
    common: bool
    point: bool
    unit_variance: NDArray[np.bool_]
    """Sets whose α is held at 1, (E,)."""
    priors: Priors
    designs: tuple[Design, ...]
    """What factors and biases regress on, where something is known of entities."""
    scaled: bool = False
    """Whether relations have scales, one for each factor."""
    keep: Keep = "auto"
    """Whether the model keeps which cells were observed."""
    noise_cells: tuple[NDArray[np.float64] | None, ...] = ()
    """Per layer: how many cells tell of the noise of each row; None where rows have that of the relation."""
    symmetric: tuple[bool, ...] = ()
    """Which relations are of a set with itself and the same both ways: their biases are those of the first layer."""

    @cached_property
    def n_bias(self) -> NDArray[np.float64]:
        """Number of biases per layer, (2M,)."""
        return np.array([seen.sum() for seen in self.in_layer], dtype=float)

    @cached_property
    def sides(self) -> NDArray[np.intp]:
        """Row sets and column sets of the relations, (2, M)."""
        return np.array(self.ends).T

    @cached_property
    def two_colors(self) -> NDArray[np.int64] | None:
        """0 or 1 for each set such that every relation is between a 0 and a 1; None if there is an odd cycle, (E,)."""
        return _two_colors(len(self.sizes), self.ends)

    @cached_property
    def forest(self) -> NDArray[np.bool_]:
        """Relations of a spanning forest of the schema, (M,): what they do to a factor, its sets could do."""
        return spanning(len(self.sizes), self.ends)

    @cached_property
    def layers(self) -> tuple[list[int], ...]:
        """Bias layers of each entity set, in the order of its blocks."""
        return tuple([2 * m + side for m, ends in enumerate(self.ends) for side in (0, 1)
                      if ends[side] == e and self.layer(m, side) == 2 * m + side]
                     for e in range(len(self.sizes)))  # fmt: skip

    @cached_property
    def directed(self) -> NDArray[np.bool_]:
        """Which relations are of a set with itself, and not the same both ways, (M,)."""
        return np.array([r == c and not same for (r, c), same in zip(self.ends, self.symmetric, strict=True)])

    @cached_property
    def itself(self) -> NDArray[np.int64]:
        """Of directed relations their set, of all others −1, (M,)."""
        return np.where(self.directed, self.sides[0], -1)

    def layer(self, m: int, side: int) -> int:
        """The bias layer of a side of relation m: both sides of a symmetric one have the first."""
        return 2 * m + (side and not self.symmetric[m])

    @cached_property
    def parameter_prior(self) -> ParameterPrior:
        """Hyper-prior of what likelihoods learn."""
        return ParameterPrior(self.priors.tau_shape, self.priors.tau_rate, self.point)

    @cached_property
    def has_bias(self) -> NDArray[np.bool_]:
        """Which layers have biases, (2M,)."""
        return np.array(self.biased)

    @cached_property
    def two_sided(self) -> NDArray[np.bool_]:
        """Which relations have biases on both sides, (M, 1)."""
        return np.asarray(self.has_bias.reshape(-1, 2).all(axis=1, keepdims=True))

    @cached_property
    def alpha_prior(self) -> NDArray[np.float64]:
        """a₀ of each entity set, (E, 1); of a MAP fit at least so much that α has a mode in the smallest sets."""
        counts = np.full_like(self.n_entities, self.n_entities.min()) if self.common else self.n_entities
        shape = self.priors.alpha_shape
        return np.asarray(with_mode(shape, counts) if self.point else np.full_like(counts, shape))[:, None]

    @cached_property
    def off_level(self) -> NDArray[np.float64]:
        """What a pair (e, k) adds to the bound when it is off, the limit for S → 0 under vague priors, (E,)."""
        if not self.priors.vague:
            return np.zeros(len(self.n_entities))
        a0, b0, half = self.priors.alpha_shape, self.priors.alpha_rate, self.n_entities / 2.0
        if self.common:
            half = np.full_like(half, half.sum())
        level = gammaln(half) + half - half * np.log(half) + a0 * np.log(b0) - gammaln(a0)
        return np.where(self.unit_variance, 0.0, level)

    @cached_property
    def scale_off_level(self) -> float:
        """What a scale adds to the bound when it is off: as `off_level`, for one number."""
        a0, b0 = self.priors.alpha_shape, self.priors.alpha_rate
        return float(gammaln(0.5) + 0.5 - 0.5 * np.log(0.5) + a0 * np.log(b0) - gammaln(a0)) * self.priors.vague

    @cached_property
    def creep(self) -> NDArray[np.float64]:
        """How many times shorter than the data allow the steps are that the bound of each relation takes, (M,).

        A quadratic bound must hold everywhere, so its curvature w may be far above f″ where the cells are: at θ of the
        relation's mean, this is w/f″, with f′ = w m − wz. 1 for Gaussian cells and exact expectations.
        """
        pairs = zip(self.likelihoods, self.offset.tolist(), strict=True)
        return np.array([likelihood.looseness(offset) for likelihood, offset in pairs])

    @cached_property
    def price(self) -> NDArray[np.float64]:
        """½ log n_m, what a factor pays for reaching a relation, (M,)."""
        return 0.5 * np.log(np.maximum(self.n_cells, 1.0))


def spanning(n: int, ends: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """Mark the relations between n sets that join what no earlier one has joined, (M,)."""
    label, tree = list(range(n)), []
    for r, c in ends:
        old, new = label[r], label[c]
        tree.append(old != new)
        label = [new if one == old else one for one in label]
    return np.array(tree, dtype=bool)


def can_profit(n: int, ends: tuple[tuple[int, int], ...]) -> bool:
    """Whether scales say what factors of n sets cannot: an odd cycle, a repeated relation, or one of a set with itself.

    In a forest they would be redundant: a set that is scaled scales the relation.
    """
    return len({frozenset(pair) for pair in ends}) < len(ends) or _two_colors(n, ends) is None


def _two_colors(n: int, ends: tuple[tuple[int, int], ...]) -> NDArray[np.int64] | None:
    color: dict[int, int] = {}
    for first in range(n):
        color.setdefault(first, 0)
        reached = [first]
        for e in reached:
            for other in [c if r == e else r for r, c in ends if e in (r, c)]:
                if other not in color:
                    color[other] = 1 - color[e]
                    reached.append(other)
    if any(color[r] == color[c] for r, c in ends):
        return None
    return np.array([color[e] for e in range(n)])


def build(data: Collection, options: FitOptions) -> tuple[Spec, Problem]:
    """Read off a collection everything that sweeps take for granted."""
    schema = data.schema
    sizes = tuple(data.entities[name].size for name in schema.entities)
    _check_memory(sum(sizes), options)
    relations = [data.relations[r.name] for r in schema.relations]
    likelihoods = tuple(resolve(r.likelihood) for r in relations)
    stats = [_summary(r.cells, lik) for r, lik in zip(relations, likelihoods, strict=True)]
    ends = tuple((schema.entity_index(r.rows), schema.entity_index(r.cols)) for r in schema.relations)
    observed = tuple(data.observed(name) for name in schema.entities)
    symmetric = tuple(bool(r.symmetric) for r in schema.relations)
    biased = _bias_layers(tuple(r.name for r in schema.relations), symmetric, options)
    idle = [name for name, seen in zip(schema.entities, observed, strict=True) if not seen.any()]
    if idle:
        msg = (f"No relation of this collection has a cell of {', '.join(map(repr, idle))}, so nothing can be learned "
               "about it. This may be the test part of a split: fit the other part.")  # fmt: skip
        raise DataError([msg])
    blocks: list[list[Block]] = [[] for _ in schema.entities]
    noise_cells = list[Any]([None] * (2 * len(relations)))
    for m, (relation, lik) in enumerate(zip(relations, likelihoods, strict=True)):
        for side, cells in enumerate((relation.cells.rows, relation.cells.cols)):
            if side and symmetric[m]:
                continue  # its rows list each cell from either end
            offset = lik.intercept(stats[m].mean)
            # Networks have one noise: a row of theirs is a column too.
            if ends[m][0] != ends[m][1] and options.inference != "map":
                noise_cells[2 * m + side] = cells_of_noise(cells, side, lik)
            block = Block(m, side, ends[m][1 - side], cells, lik, stats[m].center, stats[m].scale, offset, symmetric[m],
                          noise_cells[2 * m + side])  # fmt: skip
            blocks[ends[m][side]].append(block)
    # The cells of a symmetric relation are there both ways.
    counts = np.array([r.cells.weight / (2.0 if same else 1.0) for r, same in zip(relations, symmetric, strict=True)])
    in_layer = tuple(side.counts() > 0 for r in relations for side in (r.cells.rows, r.cells.cols))
    known = tuple(data.entities[name].covariates for name in schema.entities)
    features = tuple(None if c is None else c.values for c in known) if any(known) else ()
    problem = Problem(sizes, tuple(map(tuple, blocks)), biased, len(relations), features)
    spec = Spec(
        schema=schema, likelihoods=likelihoods, ends=ends, sizes=sizes, observed=observed, biased=biased,
        center=np.array([s.center for s in stats]),
        scale=np.array([s.scale for s in stats]),
        largest=np.array([s.largest for s in stats]),
        n_entities=np.array([o.sum() for o in observed], dtype=float),
        n_cells=counts,
        n_weighed=np.array([n * (1.0 + (lik.zero_weight - 1.0) * (1.0 - s.mean))
                            for n, lik, s in zip(counts, likelihoods, stats, strict=True)]),
        in_layer=in_layer,
        offset=np.array([lik.intercept(s.mean) for lik, s in zip(likelihoods, stats, strict=True)]),
        constant=sum(s.constant / (2.0 if same else 1.0) for s, same in zip(stats, symmetric, strict=True)),
        symmetric=symmetric,
        noise_cells=tuple(noise_cells),
        keep=options.keep,
        common=options.sharing == "common",
        point=options.inference == "map",
        unit_variance=np.array([name in options.unit_variance for name in schema.entities]),
        priors=options.priors,
        scaled=can_profit(len(sizes), ends) if options.relation_scales == "auto" else bool(options.relation_scales),
        designs=_designs(known, problem, observed, in_layer),
    )  # fmt: skip
    return spec, problem


def _designs(
    known: tuple[Covariates | None, ...],
    problem: Problem,
    observed: tuple[NDArray[np.bool_], ...],
    in_layer: tuple[NDArray[np.bool_], ...],
) -> tuple[Design, ...]:
    """What the factors and each bias layer of the sets with covariates regress on."""
    designs = []
    for e, covariates in enumerate(known):
        if covariates is None:
            continue
        designs.append(Design(e, None, 0, covariates.values, covariates.group, observed[e]))
        for b, block in enumerate(problem.blocks[e]):
            if problem.biased[block.layer]:
                seen = in_layer[block.layer]
                designs.append(Design(e, block.layer, b, covariates.values, covariates.group, seen))
    return tuple(designs)


def _check_memory(n_entities: int, options: FitOptions) -> None:
    """Refuse factors that this machine cannot hold: means and variances of all entities, and one Gram matrix."""
    K = options.n_start
    needed = 2 * n_entities * K * np.dtype(options.dtype).itemsize + 8 * K * K
    if needed > (memory := total_memory()):
        msg = (
            f"n_factors={K:,} for {n_entities:,} entities needs {needed / 2**30:,.1f} GiB at the very least, and this"
            f" machine has {memory / 2**30:,.1f}. Choose fewer: superfluous factors are only switched off."
        )
        raise OptionError(msg)


def total_memory() -> float:
    """Bytes of memory that this machine has; infinity where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # there is no such question on Windows
        return float("inf")


@dataclass(frozen=True)
class _Summary:
    mean: float
    """Mean of the scaled cells."""
    center: float
    scale: float
    largest: float
    constant: float


def _summary(cells: Cells, likelihood: Likelihood) -> _Summary:
    """Moments of a relation's cells; unlisted cells of a filled relation are counted, not listed.

    No square overflows or vanishes: a collection refuses such numbers (data/checks.py).
    """
    if cells.rows.weight is not None:
        return _weighed_summary(cells.rows.value.astype(np.float64), cells.rows.weight.astype(np.float64), likelihood)
    value, n = cells.rows.value, cells.n_cells
    total = sum(float(x.sum()) for x in _listed(value))
    largest = max((float(x.max(initial=0.0)) for x in _listed(value)), default=0.0)
    if not likelihood.standardized:
        constant = sum(float(likelihood.constant(x).sum()) for x in _listed(value))
        return _Summary(total / n, 0.0, 1.0, largest, constant)
    low = min((float(x.min(initial=np.inf)) for x in _listed(value)), default=np.inf)
    high = max((float(x.max(initial=-np.inf)) for x in _listed(value)), default=-np.inf)
    n_listed = sum(len(x) for x in _listed(value))
    if n_listed < n:  # unlisted cells of a filled relation are zeros
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return _Summary(0.0, low, 1.0, largest, 0.0)
    center = np.float64(total / n)
    spread = sum(float(((x - center) ** 2).sum()) for x in _listed(value)) + (n - n_listed) * center**2
    return _Summary(0.0, float(center), float(np.sqrt(spread / n)), largest, 0.0)


def _weighed_summary(x: NDArray[np.float64], weight: NDArray[np.float64], likelihood: Likelihood) -> _Summary:
    """The same of cells that count as many as their weights say."""
    n, largest = float(weight.sum()), float(x.max(initial=0.0))
    center = float(weight @ x / n)
    if not likelihood.standardized:
        return _Summary(center, 0.0, 1.0, largest, float(weight @ likelihood.constant(x)))
    if x.min() == x.max():
        return _Summary(0.0, float(x.min()), 1.0, largest, 0.0)
    return _Summary(0.0, center, float(np.sqrt(weight @ (x - center) ** 2 / n)), largest, 0.0)


def _listed(value: NDArray[Any], size: int = 1 << 16) -> Iterator[NDArray[np.float64]]:
    """Yield the listed values that are no holes, a part at a time: they may fill half of the memory already."""
    for start in range(0, len(value), size):
        part = value[start : start + size]
        seen = part != HOLE if part.dtype == np.uint8 else ~np.isnan(part)
        yield np.asarray(part[seen], dtype=np.float64)


def _bias_layers(names: tuple[str, ...], symmetric: tuple[bool, ...], options: FitOptions) -> tuple[bool, ...]:
    """Whether each layer (relation, side) has biases; the second one of a symmetric relation is the first."""
    if isinstance(options.bias, bool):
        return tuple(options.bias and not (side and same) for same in symmetric for side in (0, 1))
    unknown = sorted(set(options.bias) - set(names))
    if unknown:
        msg = f"bias= names {', '.join(map(repr, unknown))}, but the relations are {', '.join(map(repr, names))}."
        raise OptionError(msg)
    layers: list[bool] = []
    for name, same in zip(names, symmetric, strict=True):
        sides = options.bias.get(name, True)
        layers += [bool(sides), False] if same else [sides in (True, "rows"), sides in (True, "cols")]
    return tuple(layers)
