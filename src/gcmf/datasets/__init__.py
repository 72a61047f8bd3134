"""Collections to try things on: simulated ones whose factors are known, digits, and public sets."""

from gcmf.datasets.digits import digits
from gcmf.datasets.public import (
    Flickr,
    Genes,
    find_data_folder,
    load_faces,
    load_flickr,
    load_lastfm,
    load_movielens_1m,
    load_movielens_100k,
    load_pollack2002,
)
from gcmf.datasets.simulate import Simulation, simulate, simulate_cycle

__all__ = [
    "Flickr",
    "Genes",
    "Simulation",
    "digits",
    "find_data_folder",
    "load_faces",
    "load_flickr",
    "load_lastfm",
    "load_movielens_1m",
    "load_movielens_100k",
    "load_pollack2002",
    "simulate",
    "simulate_cycle",
]
