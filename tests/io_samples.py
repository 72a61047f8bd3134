"""Small sources as people have them: a MovieLens-like folder, a Last.fm-like folder, a film database."""

from __future__ import annotations

import csv
import sqlite3

import numpy as np

#: A project file for `ratings.csv`: who rated which film how.
RATINGS_PROJECT = """
[relations.ratings]
source = "ratings.csv"
rows = "user"
cols = "film"
row = "user"
col = "film"
value = "rating"
"""
GENRES = ("Action", "Comedy", "Drama", "Western")


def write_csv(path, header, rows, delimiter=",", encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)


def pairs(rng, n_rows, n_cols, share=0.4):
    """Distinct pairs of ids from 1; every id comes at least once."""
    seen = rng.random((n_rows, n_cols)) < share
    seen[np.arange(n_rows), np.arange(n_rows) % n_cols] = True
    seen[np.arange(n_cols) % n_rows, np.arange(n_cols)] = True
    return [(int(i) + 1, int(j) + 1) for i, j in zip(*np.nonzero(seen), strict=True)]


def movielens(folder, seed=0):
    """MovieLens 100K in small, with its headers: u.data, u.user, u.item in its own formats, but for the first line."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    ratings = [(u, m, int(rng.integers(1, 6)), 880_000_000 + int(rng.integers(1e6))) for u, m in pairs(rng, 30, 40)]
    write_csv(folder / "u.data", ("user_id", "item_id", "rating", "timestamp"), ratings, "\t")
    jobs = ("writer", "student", "other", "technician")
    users = [(u, int(rng.integers(18, 70)), "MF"[u % 2], jobs[u % 4], f"{10000 + 7 * u}" if u % 9 else "T8H1N")
             for u in range(1, 31)]  # fmt: skip
    write_csv(folder / "u.user", ("user_id", "age", "gender", "occupation", "zip_code"), users, "|")
    films = [(m, f"Filmé {m} (1995)", "01-Jan-1995", "", f"http://example.org/{m}", *rng.integers(0, 2, len(GENRES)))
             for m in range(1, 41)]  # fmt: skip
    header = ("movie_id", "movie_title", "release_date", "video_release_date", "IMDb_URL", *GENRES)
    write_csv(folder / "u.item", header, films, "|", encoding="latin-1")
    (folder / "README").write_text("MovieLens in small.\n\nIt's only for tests, really.\n")
    return folder


def lastfm(folder, seed=0):
    """The Last.fm files in small."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    plays = [(u + 1, a, int(rng.integers(1, 5000))) for u, a in pairs(rng, 25, 30)]
    write_csv(folder / "user_artists.dat", ("userID", "artistID", "weight"), plays, "\t")
    artists = [(a, f"Artist {a}", f"http://example.org/{a}", f"http://example.org/{a}.jpg") for a in range(1, 33)]
    write_csv(folder / "artists.dat", ("id", "name", "url", "pictureURL"), artists, "\t")
    write_csv(folder / "tags.dat", ("tagID", "tagValue"), [(t, f"tágg {t}") for t in range(1, 13)], "\t", "latin-1")
    tagged = [(u + 1, a, int(rng.integers(1, 13)), 1, 4, 2009) for u, a in pairs(rng, 25, 30, 0.2)]
    write_csv(folder / "user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), tagged, "\t")
    friends = [(u + 1, v + 1) for u, v in pairs(rng, 25, 25, 0.2) if u != v]
    friends += [(v, u) for u, v in friends]
    write_csv(folder / "user_friends.dat", ("userID", "friendID"), sorted(set(friends)), "\t")
    return folder


FILM_TABLES = """
CREATE TABLE users (id INTEGER PRIMARY KEY, age INTEGER, city TEXT);
CREATE TABLE films (id INTEGER PRIMARY KEY, title TEXT, year INTEGER, color BOOLEAN);
CREATE TABLE actor (actor_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE ratings (user_id INTEGER {users}, film_id INTEGER {films}, rating REAL);
CREATE TABLE film_actor (film_id INTEGER {films}, actor_id INTEGER {actor});
"""


def film_database(path, seed=0, declared=True):
    """A normalized film database in SQLite, with foreign keys declared or not."""
    rng = np.random.default_rng(seed)
    keys = {"users": "id", "films": "id", "actor": "actor_id"}
    references = {table: f"REFERENCES {table}({key})" for table, key in keys.items()}
    with sqlite3.connect(path) as lite:
        lite.executescript(FILM_TABLES.format(**references if declared else dict.fromkeys(references, "")))
        cities = ("Rome", "Oslo", None)
        lite.executemany("INSERT INTO users VALUES (?, ?, ?)",
                         [(u, int(rng.integers(18, 70)), cities[u % 3]) for u in range(1, 31)])  # fmt: skip
        lite.executemany("INSERT INTO films VALUES (?, ?, ?, ?)",
                         [(f, f"Film {f}", int(rng.integers(1950, 2000)), f % 2) for f in range(1, 31)])  # fmt: skip
        lite.executemany("INSERT INTO actor VALUES (?, ?)", [(a, f"Actor {a}") for a in range(1, 21)])
        lite.executemany("INSERT INTO ratings VALUES (?, ?, ?)",
                         [(u, f, float(rng.integers(1, 11)) / 2) for u, f in pairs(rng, 30, 30)])  # fmt: skip
        lite.executemany("INSERT INTO film_actor VALUES (?, ?)", pairs(rng, 30, 20, 0.15))
    lite.close()
    return path
