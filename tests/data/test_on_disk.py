"""Cells in files: the same as those in memory to the bit, made whole or not at all, and with little memory."""

import errno
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.data import sorting
from gcmf.data.cells import DuplicateCellsError, Triplets, list_cells, two_sides, weigh_cells
from gcmf.data.files import MANIFEST, Files, making
from gcmf.data.spilled import Batch, spill
from gcmf.errors import DataError, StorageError

pytest.importorskip("pyarrow")
ARRAYS = ("indptr", "partner", "value", "members", "covered", "weight")


@pytest.fixture
def small(monkeypatch):
    """So few cells at a time that toys have many buckets and parts."""
    monkeypatch.setattr(sorting, "BUCKET", 300)
    monkeypatch.setattr(sorting, "PART", 170)


@pytest.fixture
def new(tmp_path):
    """The files of a folder to be."""
    with closing(Files(tmp_path)) as files_of_it:
        yield files_of_it


def listing(n=4000, shape=(150, 90), seed=0):
    """Cells in no order; the first row has all of its cells, and so more than a bucket has on average."""
    rng = np.random.default_rng(seed)
    cell = np.union1d(rng.permutation(shape[0] * shape[1])[:n], np.arange(shape[1]))
    i, j = np.divmod(rng.permutation(cell), shape[1])
    return i.astype(np.int32), j.astype(np.int32), rng.normal(size=len(i)).astype(np.float32)


def assert_same(side, other):
    for name in ARRAYS:
        one, two = getattr(side, name), getattr(other, name)
        assert (one is None) == (two is None), name
        if one is not None:
            assert one.dtype == two.dtype, name
            np.testing.assert_array_equal(one, two, err_msg=name)
    assert side.stride == other.stride


# --- sorting ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_sorted_in_files_as_in_memory(new, dtype):
    i, j, x = listing()
    cells, shape = Triplets(i, j, (x > 0) if dtype == "uint8" else x), (151, 92)  # of which the last have none
    for side, other in zip(sorting.OnDisk(new, "r")(cells, shape, dtype), two_sides(cells, shape, dtype), strict=True):
        assert_same(side, other)
        assert not side.value.flags.writeable


@pytest.mark.usefixtures("small")
def test_weights_go_with_their_cells(new):
    i, j, x = listing()
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(x))
    given = gcmf.Relation("r", "u", "v", (i, j, x), weight=weight).raw
    rows, cols = sorting.OnDisk(new, "r")(given, given.shape, np.float32)
    held = weigh_cells(given, weight, given.shape, dtype=np.float32)
    assert_same(rows, held.rows)
    assert_same(cols, held.cols)


@pytest.mark.usefixtures("small")
def test_a_cell_given_twice_is_named(new):
    i, j, x = listing()
    i, j, x = np.append(i, 77), np.append(j, j[i == 77][0]), np.append(x, 0.5)
    with pytest.raises(DuplicateCellsError) as caught:
        sorting.OnDisk(new, "r")(Triplets(i, j, x), (150, 90), None)
    assert caught.value.args == (77, j[-1])


def test_sorting_takes_the_memory_of_a_bucket(new, monkeypatch):
    monkeypatch.setattr(sorting, "BUCKET", 1 << 14)
    monkeypatch.setattr(sorting, "PART", 1 << 13)
    i, j, x = listing(n=1_000_000, shape=(4000, 3000))
    peaks = []
    for sort in (two_sides, sorting.OnDisk(new, "r")):
        tracemalloc.start()
        made = list_cells(Triplets(i, j, x), (4000, 3000), sort=sort)
        peaks.append(tracemalloc.get_traced_memory()[1] / made.n_cells)
        tracemalloc.stop()
    assert peaks[0] > 16  # bytes per cell: what both sides hold
    assert peaks[1] < 4  # nothing but the bucket, and the ends of rows


# --- Parquet ------------------------------------------------------------------------------------------------


def write(path, **columns):
    pd.DataFrame(columns).to_parquet(path, row_group_size=700)
    return path


@pytest.fixture
def ratings(tmp_path):
    i, j, x = listing()
    return write(tmp_path / "ratings.parquet", user=[f"u{k:03}" for k in i], movie=j.astype(np.int64) * 7, stars=x)


def in_memory(path):
    """The same collection by `Relation`: ids in a folder are sorted."""
    table = pd.read_parquet(path)
    ids = {name: np.sort(table[name].unique()) for name in ("user", "movie")}
    relation = gcmf.Relation("user-movie", "user", "movie", tuple(table[name] for name in table))
    return gcmf.Collection([relation], ids)


@pytest.mark.usefixtures("small")
def test_from_parquet_is_what_memory_holds(ratings, tmp_path):
    made = gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=tmp_path / "cells")
    other = in_memory(ratings)
    for name in ("user", "movie"):
        assert made.entities[name].ids.equals(other.entities[name].ids)
    for side in ("rows", "cols"):
        assert_same(*(getattr(data.relations["user-movie"].cells, side) for data in (made, other)))
    assert {entry.name for entry in tmp_path.iterdir()} == {"ratings.parquet", "cells"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fit_is_the_same_to_the_bit(ratings, tmp_path, dtype):
    made = gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=tmp_path / "cells")
    settings = {"dtype": dtype, "max_iter": 12, "random_state": 0, "progress": False, "tol": 0.0}
    with pytest.warns(gcmf.errors.ConvergenceWarning):
        one, two = (gcmf.GCMF(3, **settings).fit(data) for data in (made, in_memory(ratings)))
    assert one.elbo_ == two.elbo_
    for a, b in zip(one.fitted_.mean, two.fitted_.mean, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("later", [["a", "c"], ["a", None]])
def test_a_source_that_changes_while_it_is_read_is_refused(new, later):
    pa = pytest.importorskip("pyarrow")
    times = iter((["a", "b"], later))

    def read():
        yield Batch(pa.array(next(times)), pa.array([1, 2]), np.ones(2))

    with pytest.raises(DataError, match="changed while it was read"):
        spill(read, new)


def test_folders_of_files_and_lines_without_values(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "a.parquet", user=[1, 2], movie=["x", "y"])
    write(folder / "b.parquet", user=[3, 1], movie=["x", "y"])
    made = gcmf.Collection.from_parquet({("user", "movie", "seen"): folder}, folder=tmp_path / "cells")
    assert made.relations["seen"].n_cells == 4
    assert list(made.entities["user"].ids) == [1, 2, 3]


def test_booleans_and_missing_values(tmp_path):
    path = write(
        tmp_path / "l.parquet", user=[1, 2, 3], movie=[1, 1, 2], likes=pd.array([True, None, False], "boolean")
    )
    made = gcmf.Collection.from_parquet({("user", "movie"): path}, folder=tmp_path / "cells")
    relation = made.relations["user-movie"]
    assert (relation.likelihood, relation.n_cells, made.entities["user"].size) == ("bernoulli", 2, 3)
    assert relation.cells.rows.value.dtype == np.uint8


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"usr": [1], "movie": [1], "x": [1.0]}, "Did you mean 'usr'"),
        ({"user": [1], "movie": [1], "x": [1.0], "y": [1.0]}, "x, y"),
        ({"user": [0.5], "movie": [1], "x": [1.0]}, "holds double"),
        ({"user": [1], "movie": ["a"], "x": ["1"]}, "not numbers"),
        ({"user": ["a", None], "movie": [1, 2], "x": [1.0, 2.0]}, "null id"),
        ({"user": [1, 1], "movie": [2, 2], "x": [1.0, 2.0]}, "row 1, column 2 is given more than once"),
        ({"user": [1, 1], "movie": [2, 3], "x": [1.0, np.inf]}, "finite"),
    ],
)
def test_faults_leave_nothing_behind(tmp_path, columns, says):
    path = write(tmp_path / "r.parquet", **columns)
    with pytest.raises(DataError, match=says):
        gcmf.Collection.from_parquet({("user", "movie"): path}, folder=tmp_path / "cells")
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.parquet"]


# --- the folder ---------------------------------------------------------------------------------------------


def test_a_folder_is_used_again_until_its_source_changes(ratings, tmp_path):
    def read():
        gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=tmp_path / "cells")
        return (tmp_path / "cells").stat().st_ino

    first = read()
    assert read() == first
    os.utime(ratings, ns=(1, 1))
    assert read() != first


def test_folders_of_others_are_left_alone(ratings, tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "thesis.txt").write_text("all of it")
    for there in (tmp_path / "cells", ratings):
        with pytest.raises(StorageError, match="Name a folder that is empty"):
            gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=there)
    assert (tmp_path / "cells" / "thesis.txt").read_text() == "all of it"


def test_what_was_cut_off_is_refused(ratings, tmp_path):
    folder = tmp_path / "cells"
    gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    value = folder / "r0-rows-value.npy"
    whole = value.read_bytes()
    value.write_bytes(whole[:-100])
    with pytest.raises(StorageError, match="made again"):
        gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    np.save(value, np.ones(7, np.float32))
    with pytest.raises(StorageError, match="do not fit together"):
        gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    value.write_bytes(whole)
    partner = np.load(folder / "r0-cols-partner.npy")
    for wrong in (-1, 150):  # of 150 users
        np.save(folder / "r0-cols-partner.npy", np.where(np.arange(len(partner)) == 17, np.int32(wrong), partner))
        with pytest.raises(StorageError, match="do not fit together"):
            gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["relations"][0]["rows_side"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(StorageError, match="does not hold what it says"):
        gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_end_before_time_changes_nothing(ratings, tmp_path, monkeypatch, error):
    folder = tmp_path / "cells"
    made = gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    os.utime(ratings, ns=(1, 1))

    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(sorting, "_sort_bucket", fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else StorageError) as caught:
        gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    if isinstance(error, OSError):
        assert "GiB are free" in str(caught.value)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"ratings.parquet", "cells"}
    assert made.relations["user-movie"].cells.rows.value.sum() != 0  # which is still mapped


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space is not claimed beforehand here")
def test_a_full_disk_is_noticed_before_the_work(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="larger disk"), making(tmp_path / "cells") as new:
        new.array("r0-rows-value", 10, np.float32)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such end here")
def test_what_a_killed_process_left_is_removed(ratings, tmp_path, monkeypatch):
    folder = tmp_path / "cells"
    code = (
        "import os, gcmf\nfrom gcmf.data import sorting\n"
        "sorting._sort_bucket = lambda *a, **k: os.kill(os.getpid(), 9)\n"
        f"gcmf.Collection.from_parquet({{('user', 'movie'): {str(ratings)!r}}}, folder={str(folder)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 2  # the source, and half a folder
    with making(tmp_path / "other"):
        pass  # of another name: nothing of it is touched
    assert len(list(tmp_path.iterdir())) == 3
    monkeypatch.setattr("gcmf.locks.STALE_SECONDS", -1.0)
    gcmf.Collection.from_parquet({("user", "movie"): ratings}, folder=folder)
    assert {entry.name for entry in tmp_path.iterdir()} == {"ratings.parquet", "cells", "other"}


# --- Dask ---------------------------------------------------------------------------------------------------


def test_dask_frames_are_read_partition_by_partition(tmp_path):
    """The same files as of one table; nothing is computed again when the frame is the same, and nothing else stays."""
    frames = pytest.importorskip("dask.dataframe", reason="no Dask here: pip install 'dask[dataframe]'")
    i, j, x = listing()
    table = pd.DataFrame({"user": i, "item": j, "score": x})
    table.to_parquet(tmp_path / "one.parquet")
    frame = frames.from_pandas(table, npartitions=4)
    expected = gcmf.Collection.from_parquet({("user", "item"): tmp_path / "one.parquet"}, folder=tmp_path / "one")
    for _ in range(2):
        data = gcmf.Collection.from_dask({("user", "item"): frame}, folder=tmp_path / "four")
        (tmp_path / "four" / "witness").touch()  # gone if the folder were made again
    assert (tmp_path / "four" / "witness").exists()
    ours, theirs = data.relations["user-item"].cells, expected.relations["user-item"].cells
    assert_same(ours.rows, theirs.rows)
    assert_same(ours.cols, theirs.cols)
    assert not list((tmp_path / "four").glob("parquet"))
    with pytest.raises(DataError, match="takes Dask data frames, not DataFrame"):
        gcmf.Collection.from_dask({("user", "item"): table}, folder=tmp_path / "other")
