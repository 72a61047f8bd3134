"""HetRec Last.fm: how often people played artists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets.folder import find_files

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = (
    "Get the set from https://grouplens.org/datasets/hetrec-2011/ and name the folder it is unpacked in."
)


def load_lastfm(folder: str | Path, *, min_tagged: int = 20) -> Collection:
    """Return the play counts of Last.fm with the tags that users gave to artists.

    `plays` (user × artist) are Poisson counts, observed where there is one: nobody is known not to have heard an
    artist. `tags` (artist × tag) is Bernoulli: a 1 where some user gave the tag to the artist, and a 0 for every
    other pair of a tagged artist and a tag given to at least `min_tagged` artists. Counts reach 352,698.

    Parameters
    ----------
    folder : path
        Where `user_artists.dat` and `user_taggedartists.dat` lie.
    min_tagged : int
        Tags given to fewer artists are left out.
    """
    plays_path, tags_path = find_files(folder, ("user_artists.dat", "user_taggedartists.dat"), source=_SOURCE)
    plays = pd.read_csv(plays_path, sep="\t")
    given = pd.read_csv(tags_path, sep="\t", usecols=["artistID", "tagID"]).drop_duplicates()
    # Artists that were tagged but never played add nothing to the counts, and are left out.
    given = given[given["artistID"].isin(plays["artistID"])]
    given = given[given.groupby("tagID")["artistID"].transform("size") >= min_tagged]
    tags = pd.crosstab(given["artistID"], given["tagID"]).astype(np.uint8)
    return Collection(
        [
            Relation.from_frame(
                "plays",
                plays,
                rows="user",
                cols="artist",
                row="userID",
                col="artistID",
                value="weight",
                likelihood="poisson",
            ),
            Relation("tags", "artist", "tag", tags, "bernoulli"),
        ]
    )
