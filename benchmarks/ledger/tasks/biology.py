"""Genes in tumors, patients in four views, drugs with proteins and diseases."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cases import leukemia_views
from benchmarks.ledger.tasks.base import Task, folder, pairs, problem, target, tenth
from benchmarks.problem import Table
from gcmf import datasets
from reproduction.genes import VIEWS, draw_ones

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.problem import Problem

CHROMOSOMES = ("8", "17", "20")
"""Of the genes, 533: whole chromosomes, so that genes keep their neighbors; these three are often amplified."""


def genes(split: int, *, tested: str) -> Problem:
    """Both views with half of one of them hidden at random, and which genes are near (drawn once)."""
    data = datasets.load_pollack2002(folder("pollack2002"))
    data = data.take(np.flatnonzero(np.isin(data.chromosome, CHROMOSOMES)))
    near = np.zeros((len(data.start),) * 2, np.uint8)
    near[*draw_ones(data, np.random.default_rng(0)).T] = 1
    tables = []
    for name, entity in VIEWS.items():
        x = getattr(data, name)
        if name == tested:
            tables.insert(0, target(name, "sample", entity, "gaussian", x, tenth(x, split, share=0.5)))
        else:
            tables.append(Table(name, "sample", entity, "gaussian", x.astype(np.float32)))
    tables.append(Table("proximity", *VIEWS.values(), "bernoulli", near))
    sizes = {"sample": len(data.samples), **dict.fromkeys(VIEWS.values(), len(near))}
    return problem("genes", tables, sizes)


def leukemia(split: int, *, tested: str, whole: bool) -> Problem:
    """Four views; held out is a tenth of the cells of one, or all of it for a quarter of who has it."""
    views = leukemia_views(folder("cll"))
    x = views[tested]
    if whole:
        there = np.flatnonzero(np.isfinite(x).any(axis=1))
        gone = np.random.default_rng(split).permutation(there)[: len(there) // 4]
        out = np.zeros(x.shape, dtype=bool)
        out[gone] = True
    else:
        out = tenth(x, split)
    kinds = {name: "bernoulli" if name == "Mutations" else "gaussian" for name in views}
    main = target(tested, "patient", f"feature of {tested}", kinds[tested], x, out)
    others = [
        Table(name, "patient", f"feature of {name}", kinds[name], view.astype(np.float32))
        for name, view in views.items()
        if name != tested
    ]
    sizes = {"patient": len(x), **{f"feature of {name}": view.shape[1] for name, view in views.items()}}
    return problem("cll", [main, *others], sizes)


DEEPDTNET = {
    "drug-protein": ("drugProtein.txt", "drug", "protein"),
    "drug-disease": ("drugDisease.txt", "drug", "disease"),
    "protein-disease": ("proteinDisease.txt", "protein", "disease"),
    "drug-drug": ("drugdrug.txt", "drug", "other drug"),
}
"""File and ends. Drugs interact both ways, so the other drug is an entity set of its own."""


def deepdtnet(split: int, *, tested: str) -> Problem:
    """The triangle of drugs, proteins and diseases, and for drug × drug that relation too."""
    names = [name for name in DEEPDTNET if name != "drug-drug" or tested == name]
    tables: list[Table] = []
    sizes: dict[str, int] = {}
    for name in sorted(names, key=lambda one: one != tested):
        file, rows, cols = DEEPDTNET[name]
        x = _read(file)
        sizes |= {rows: x.shape[0], cols: x.shape[1]}
        if name == tested:
            parts = pairs(x, split) if name == "drug-drug" else (x, tenth(x, split))
            tables.append(target(name, rows, cols, "bernoulli", *parts))
        else:
            tables.append(Table(name, rows, cols, "bernoulli", x))
    return problem("deepdtnet", tables, sizes)


def _read(file: str) -> NDArray[np.uint8]:
    text = (folder("deepdtnet") / file).read_text().splitlines()
    return np.array([np.array(line.split(), np.uint8) for line in text])


_OF = {"Drugs": "drug response", "Methylation": "methylation", "mRNA": "expression", "Mutations": "mutations (0/1)"}
TASKS = (
    *(
        Task(f"genes-{name.replace('_', '-')}", f"Pollack genes, chromosomes {', '.join(CHROMOSOMES)}: half of the "
             f"{name.replace('_', ' ')} held out, with the other view and proximity of genes", "gaussian",
             partial(genes, tested=name), "pollack2002", quick=name == "expression")
        for name in VIEWS
    ),
    *(
        Task(f"cll-{name.lower()}", f"CLL, four views: 10% of the cells of {words} held out",
             "bernoulli" if name == "Mutations" else "gaussian", partial(leukemia, tested=name, whole=False), "cll")
        for name, words in _OF.items()
    ),
    *(
        Task(f"cll-{name.lower()}-view", f"CLL, four views: all {_OF[name]} of a quarter of the patients held out",
             "bernoulli" if name == "Mutations" else "gaussian", partial(leukemia, tested=name, whole=True), "cll")
        for name in ("Drugs", "mRNA", "Mutations")
    ),
    *(
        Task(f"deepdtnet-{name}", f"deepdtnet, {rows} × {cols}, 10% of all cells held out, with the "
             + ("triangle" if name == "drug-drug" else "two other sides of the triangle"), "bernoulli",
             partial(deepdtnet, tested=name), "deepdtnet")
        for name, (_, rows, cols) in DEEPDTNET.items()
    ),
)  # fmt: skip
