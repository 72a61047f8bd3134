"""Flickr: who is linked with whom, and the tags they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gcmf.datasets.folder import find_files

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = "It is the attributed network of Huang, Li and Hu (2017), https://github.com/xhuang31/LANE."


class Flickr(NamedTuple):
    """Links and tags of the same users, as sparse matrices whose blanks are zeros."""

    links: Any
    """User × user, 1 where two users are linked (scipy CSR); symmetric, nobody is linked with themselves."""
    tags: Any
    """User × tag, 1 where the user has the tag (scipy CSR)."""


def load_flickr(folder: str | Path) -> Flickr:
    """Return 239,738 links among 7,575 users of Flickr, and which of 12,047 tags they use.

    Parameters
    ----------
    folder : path
        Where `Flickr.mat` lies.
    """
    from scipy.io import loadmat  # noqa: PLC0415 - slow to import, and few need it

    [path] = find_files(folder, ["Flickr.mat"], source=_SOURCE)
    content = loadmat(path)
    links, tags = (content[name].tocsr() for name in ("Network", "Attributes"))
    return Flickr((links != 0).astype("float64"), (tags != 0).astype("float64"))
