"""Hypothesis strategies: any collection the library must take, and any options it may be fitted with."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations, product
from typing import Literal, get_args, get_origin, get_type_hints
from unittest import mock

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from scipy import sparse

from gcmf import Collection, Priors, Relation
from gcmf.data import cells
from gcmf.data.parts import both_ways, take
from gcmf.likelihoods import Bernoulli, known
from gcmf.options import FitOptions


def variants(kind):
    """One object of a likelihood for every choice that it offers, such as `bound`."""
    hints = get_type_hints(kind)
    choices = {name: get_args(hints[name]) for name in kind.__dataclass_fields__ if get_origin(hints[name]) is Literal}
    return [kind(**dict(zip(choices, values, strict=True))) for values in product(*choices.values())]


LIKELIHOODS = (
    *(likelihood for kind in known().values() for likelihood in variants(kind) if likelihood.noise == "relation"),
    Bernoulli("tight", zero_weight=7.5),
    Bernoulli("paper", zero_weight=0.3),
)
COVARIATES = ("none", "none", "frame", "matrix", "wide")
LAYOUTS = ("listed", "filled", "holes", "dense")
PRIORS = (
    Priors(),
    Priors(alpha_shape=1e-6, alpha_rate=1e-6, tau_shape=1e-6, tau_rate=1e-6),
    Priors(alpha_shape=0.7, alpha_rate=0.3, tau_shape=1.3, tau_rate=0.4),
    Priors(alpha_shape=5.0, alpha_rate=2.0, tau_shape=0.2, tau_rate=3.0),
)


def adversarial(max_examples):
    """The same examples in every run, none of them too slow."""
    return settings(
        max_examples=max_examples, derandomize=True, deadline=None, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )  # fmt: skip


def values(likelihood, shape, rng, *, rank=2, scale=1.0):
    """Cells of a low-rank model of this kind."""
    theta = scale * rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) + rng.normal()
    if likelihood.support == "real":
        return theta + rng.choice([0.1, 1.0]) * rng.normal(size=shape)
    if likelihood.support == "binary":
        return (rng.random(shape) < 1 / (1 + np.exp(-theta))).astype(float)
    return rng.poisson(np.log1p(np.exp(theta))).astype(float)


def relation(name, ends, shape, *, likelihood, layout, missing, rng):
    """One relation in one of the layouts; at least one cell is observed ("holes" are made by `pierce`).

    A relation is dense if most cells are there, and if the collection is made while `every_size_may_be_dense`.
    """
    x = values(likelihood, shape, rng, scale=rng.choice([0.0, 0.5, 2.0]))
    if layout in {"listed", "dense"}:
        gone = rng.random(shape) < missing
        gone.flat[rng.integers(gone.size)] = False
        return Relation(name, *ends, np.where(gone, np.nan, x), likelihood)
    blank = rng.random(shape) < missing
    return Relation(name, *ends, sparse.csr_matrix(np.where(blank, 0.0, x)), likelihood, blanks="zero")


def network(entity, size, rng, *, symmetric=None, likelihood=None, layout=None, missing=None):
    """A relation of a set with itself; what is not said is drawn."""
    symmetric = bool(rng.random() < 0.5) if symmetric is None else symmetric
    likelihood = LIKELIHOODS[rng.integers(len(LIKELIHOODS))] if likelihood is None else likelihood
    layout = str(rng.choice(["listed", "filled"])) if layout is None else layout
    x = values(likelihood, (size, size), rng, scale=rng.choice([0.5, 2.0]))
    gone = rng.random(x.shape) < (rng.choice([0.0, 0.3, 0.9]) if missing is None else missing)
    gone[0, 1] = gone[1, 0] = False
    if symmetric:
        x, gone = np.triu(x, 1) + np.triu(x, 1).T, np.triu(gone, 1) | np.triu(gone, 1).T
    if layout == "filled":
        listed = sparse.csr_matrix(np.where(gone, 0.0, x))
        return Relation("itself", entity, entity, listed, likelihood, blanks="zero", symmetric=symmetric)
    return Relation("itself", entity, entity, np.where(gone, np.nan, x), likelihood, symmetric=symmetric)


def every_size_may_be_dense():
    """Hold small relations as large ones."""
    return mock.patch.object(cells, "MIN_DENSE", 1)


def pierce(data, names, missing, rng):
    """Make holes in filled and dense relations, in whole rows and columns too, as `split` does."""
    held = {name: bound.cells for name, bound in data.relations.items()}
    for name in names:
        whole = held[name]
        triplets = whole.triplets()
        rows, cols = rng.integers(whole.shape[0]), rng.integers(whole.shape[1])
        gone = (rng.random(whole.n_cells) < missing) | (triplets.i == rows) | (triplets.j == cols)
        gone[rng.integers(len(gone))] = False
        numbers = np.flatnonzero(gone)
        if data.relations[name].symmetric:
            there = ~gone & ~np.isin(np.arange(len(gone)), both_ways(whole, numbers))
            numbers = both_ways(whole, numbers) if there.any() else numbers[:0]
        held[name] = take(whole, numbers)[0]
    return data.with_cells(held)


def covariates(ids, kind, rng):
    """A table of columns of all kinds, some of them missing in part; or a sparse matrix of few or many columns."""
    n = len(ids)
    if kind != "frame":
        width = {"matrix": 5, "wide": 130}[kind]
        return ids, sparse.csr_array(rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.3))
    table = pd.DataFrame({"number": rng.normal(size=n) * 1e3, "size": rng.normal(size=n)}, index=ids)
    table["copy"] = -2.0 * table["size"] + 3.0
    table["yes"] = np.arange(n) % 2 == 0
    levels = ["red", "red", "green", *rng.choice(["red", "green", "blue", "none"], n)][:n]
    table["level"] = [None if level == "none" else level for level in levels]
    table["day"] = pd.Timestamp("2020-02-29") + pd.to_timedelta(rng.integers(1000, size=n) + np.arange(n), unit="D")
    table.loc[table.index[rng.random(n) < 0.3][: n - 2], "number"] = np.nan
    return table[rng.permutation(table.columns)[: rng.integers(1, 7)]]


@st.composite
def collections(draw, max_size=12, covariate_kinds=COVARIATES, likelihoods=LIKELIHOODS):
    """1-5 relations over 2-6 entity sets: trees and cycles, all kinds of cells, layouts, missingness and covariates."""
    n_sets = draw(st.integers(2, 6))
    pairs = list(combinations(range(n_sets), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=5, unique=True))
    sizes = draw(st.lists(st.integers(1, max_size), min_size=n_sets, max_size=n_sets))
    if sum(sizes) % 4 == 0:
        chosen = [*chosen, chosen[0]]  # two relations between the same sets
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    relations, holey = [], []
    for m, (r, c) in enumerate(chosen):
        r, c = (c, r) if draw(st.booleans()) else (r, c)  # noqa: PLW2901 - either end may be the rows
        layout, name = draw(st.sampled_from(LAYOUTS)), f"relation {m}"
        ends, shape = (f"set {r}", f"set {c}"), (sizes[r], sizes[c])
        likelihood, missing = draw(st.sampled_from(likelihoods)), draw(st.sampled_from([0.0, 0.3, 0.9]))
        relations.append(relation(name, ends, shape, likelihood=likelihood, layout=layout, missing=missing, rng=rng))
        if layout in {"holes", "dense"}:
            holey.append(name)
    first = chosen[0][0]
    if sum(sizes) % 3 == 0 and sizes[first] > 1:
        relations.append(network(f"set {first}", sizes[first], rng))
        holey += ["itself"] if relations[-1].raw.filled else []
    entities = {}
    for e in sorted({end for pair in chosen for end in pair}):
        if draw(st.booleans()):
            # Two more entities than any cell mentions, and all in another order than the relations bring them.
            entities[f"set {e}"] = rng.permutation(sizes[e] + 2).tolist()
            kind = draw(st.sampled_from(covariate_kinds))
            if kind != "none":
                entities[f"set {e}"] = covariates(entities[f"set {e}"], kind, rng)
    with every_size_may_be_dense() if draw(st.booleans()) else nullcontext():
        return pierce(Collection(relations, entities), holey, draw(st.sampled_from([0.1, 0.5])), rng)


@st.composite
def options(draw, data, **fixed):
    """Options of all kinds for this collection, unless fixed."""
    bias = draw(st.sampled_from([True, False, "mixed"]))
    if bias == "mixed":
        sides = st.sampled_from([True, False, "rows", "cols"])
        bias = {name: draw(sides) for name in data.relations}
    chosen = {
        "n_factors": draw(st.sampled_from([1, 2, 3, 5, 9, 15])),
        "sharing": draw(st.sampled_from(["group", "common"])),
        "bias": bias,
        # Not drawn: the examples of everything else stay as they are.
        "relation_scales": ("auto", True, False)[data.n_cells % 3],
        "priors": draw(st.sampled_from(PRIORS)),
        "dtype": "float64",
        "n_threads": 1,
    }
    return FitOptions(**{**chosen, **fixed})


@st.composite
def problems(draw, max_size=12, likelihoods=LIKELIHOODS, **fixed):
    """A collection and options for it."""
    data = draw(collections(max_size, likelihoods=likelihoods))
    return data, draw(options(data, **fixed))
