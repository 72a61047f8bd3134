"""HetRec Last.fm: how often people played artists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets.folder import find_files

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = "Get the set from https://grouplens.org/datasets/hetrec-2011/ and name the folder it is unpacked in."


def load_lastfm(folder: str | Path) -> Collection:
    """Return the play counts of Last.fm: `plays` (user × artist, Poisson), observed where there is a count.

    Nobody is known not to have heard an artist, so no zero is observed. Counts reach 352,698.

    Parameters
    ----------
    folder : path
        Where `user_artists.dat` lies.
    """
    [path] = find_files(folder, ["user_artists.dat"], source=_SOURCE)
    plays = pd.read_csv(path, sep="\t")
    triplets = (plays["userID"], plays["artistID"], plays["weight"])
    return Collection([Relation("plays", "user", "artist", triplets, "poisson")])
