"""What friends, interactions and a second relation add on real data: python -m benchmarks.schemas [NAME ...].

- drugs: drug × protein of deepdtnet, a tenth of all cells held out, three splits, alone, in the triangle with diseases,
  and with drug × drug beside it, a relation of the drugs with themselves.
- friends: who listens to whom on Last.fm, a tenth of the listens held out, with and without friendships; for all
  users and for the fifth with the fewest listens.
- watched: MovieLens 1M and 100K, ratings with who rated what, a second relation between the same users and movies.

Needs the data: GCMF_DATA, or ../shared/data beside the project.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import gcmf
from benchmarks.ledger.tasks.base import tenth
from benchmarks.ledger.tasks.biology import DEEPDTNET, _read
from benchmarks.movielens import clipped_rmse
from gcmf import datasets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPLITS = 3


def main(names: Sequence[str]) -> None:
    """Print one line per fit."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    for name in names or PARTS:
        PARTS[name](folder)


def drugs(_: Path) -> None:
    """Drug × protein with what else is known of drugs and proteins."""
    tables = {name: _read(DEEPDTNET[name][0]).astype(np.float32) for name in DEEPDTNET}
    settings = {
        "alone": ["drug-protein"],
        "with drug × drug": ["drug-protein", "drug-drug"],
        "triangle": ["drug-protein", "drug-disease", "protein-disease"],
        "triangle with drug × drug": ["drug-protein", "drug-disease", "protein-disease", "drug-drug"],
    }
    for split in range(SPLITS):
        out = tenth(tables["drug-protein"], split)
        hidden = np.where(out, np.nan, tables["drug-protein"])
        i, j = np.nonzero(out)
        for label, names in settings.items():
            relations = [_drug_relation(name, hidden if name == "drug-protein" else tables[name]) for name in names]
            model, seconds = _timed(relations)
            _judge(f"drugs, split {split}, {label}", model, seconds,
                   tables["drug-protein"][i, j], model.predict("drug-protein", i, j))  # fmt: skip


def _drug_relation(name: str, x: np.ndarray) -> gcmf.Relation:
    if name == "drug-drug":
        return gcmf.Relation(name, "drug", "drug", np.maximum(x, x.T), "bernoulli", symmetric=True)
    return gcmf.Relation(name, *DEEPDTNET[name][1:], x, "bernoulli")


def friends(folder: Path) -> None:
    """Listens on Last.fm with and without friendships."""
    listens = pd.read_csv(folder / "lastfm" / "user_artists.dat", sep="\t")
    ties = pd.read_csv(folder / "lastfm" / "user_friends.dat", sep="\t")
    per_artist = listens.groupby("artistID")["userID"].transform("size")
    listens = listens[per_artist >= 5]
    friendship = gcmf.Relation.from_frame(
        "friends",
        ties,
        rows="user",
        cols="user",
        row="userID",
        col="friendID",
        value=None,
        likelihood="bernoulli",
        blanks="zero",
        symmetric=True,
    )
    users, artists = np.unique(listens["userID"]), np.unique(listens["artistID"])
    for split in range(SPLITS):
        rng = np.random.default_rng(split)
        held = rng.random(len(listens)) < 0.1
        # Users for whom little is left: four of five of their listens are taken from every fifth user.
        few = np.isin(listens["userID"], rng.choice(users, len(users) // 5, replace=False))
        held |= few & (rng.random(len(listens)) < 0.8)
        seen = listens[~held]
        told = np.isin(listens["artistID"], seen["artistID"].unique()) & held
        for label in ("alone", "friends"):
            main = gcmf.Relation.from_frame(
                "listens",
                seen,
                rows="user",
                cols="artist",
                row="userID",
                col="artistID",
                value=None,
                likelihood="bernoulli",
                blanks="zero",
            )
            data = gcmf.Collection([main] if label == "alone" else [main, friendship], entities={"user": users})
            model, seconds = _timed(data)
            known = set(zip(seen["userID"], seen["artistID"], strict=True))
            for who, rows in (("few listens", few & told), ("others", ~few & told)):
                ones = listens[rows]
                zeros_i = rng.choice(ones["userID"].to_numpy(), 20 * len(ones))
                zeros_j = rng.choice(np.intersect1d(artists, seen["artistID"]), 20 * len(ones))
                every = set(zip(listens["userID"], listens["artistID"], strict=True)) | known
                free = np.array([pair not in every for pair in zip(zeros_i, zeros_j, strict=True)])
                i = np.concatenate([ones["userID"], zeros_i[free]])
                j = np.concatenate([ones["artistID"], zeros_j[free]])
                x = np.concatenate([np.ones(len(ones)), np.zeros(free.sum())])
                _judge(f"friends, split {split}, {label}, users with {who}", model, seconds, x,
                       model.predict("listens", i, j))  # fmt: skip


def watched(folder: Path) -> None:
    """Ratings with who rated what."""
    loads = {"ml-100k": datasets.load_movielens_100k, "ml-1m": datasets.load_movielens_1m}
    for name, load in loads.items():
        train, test = load(folder / name, side="relations")
        i, j, x = train.relations["ratings"].cells.triplets()
        i, j = train.entities["user"].ids[i], train.entities["movie"].ids[j]
        ratings = gcmf.Relation("ratings", "user", "movie", (i, j, x))
        rated = gcmf.Relation("rated", "user", "movie", (i, j, np.ones(len(x))), "bernoulli", blanks="zero")
        for label, relations in (("ratings", [ratings]), ("ratings and who rated what", [ratings, rated])):
            known = {end: train.entities[end].ids for end in ("user", "movie")}
            model, seconds = _timed(gcmf.Collection(relations, entities=known))
            print(f"{name}, {label}: RMSE {clipped_rmse(model, test):.4f}, {model.n_factors_active_} factors, "
                  f"{model.n_iter_} sweeps, {seconds:.1f} s, {model.status_.name}", flush=True)  # fmt: skip


def _timed(data: gcmf.Collection | list[gcmf.Relation]) -> tuple[gcmf.GCMF, float]:
    started = time.perf_counter()
    model = gcmf.GCMF(random_state=0).fit(data)
    return model, time.perf_counter() - started


def _judge(label: str, model: gcmf.GCMF, seconds: float, x: np.ndarray, p: np.ndarray) -> None:
    print(f"{label}: AP {average_precision_score(x, p):.4f}, AUC {roc_auc_score(x, p):.4f}, "
          f"log-loss {log_loss(x, p):.5f}, "
          f"{model.n_factors_active_} factors, {seconds:.1f} s, {model.status_.name}", flush=True)  # fmt: skip


PARTS = {"drugs": drugs, "friends": friends, "watched": watched}


if __name__ == "__main__":
    main(sys.argv[1:])
