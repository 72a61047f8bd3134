"""Writing fails, at every call that a save makes: the file is the old or the new one, whole, and nothing is left."""

from __future__ import annotations

import errno
import os
import resource
import warnings
from pathlib import Path

import numpy as np
import pytest

import gcmf
from gcmf import storage
from gcmf.errors import ConvergenceWarning, StorageError

#: What a save asks the system for, by the names under which it does.
CALLS = [(os, "open"), (Path, "write_bytes"), (os, "fsync"), (os, "chmod"), (os, "link"), (os, "replace"),
         (os, "close"), (os, "stat"), (os, "fstat"), (os, "unlink")]  # fmt: skip
X = np.random.default_rng(0).normal(size=(12, 8))


def model(max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return gcmf.GCMF(2, random_state=0, max_iter=max_iter, device="reference", progress=False).fit({("a", "b"): X})


@pytest.fixture(scope="module")
def models():
    return model(2), model(3)


class Failing:
    """Lets the n-th call of a function fail as on a full disk; a write leaves half of its bytes."""

    def __init__(self, holder, name, at):
        self.real, self.name, self.at, self.n = getattr(holder, name), name, at, 0

    def __call__(self, *arguments, **options):
        self.n += 1
        if self.n != self.at:
            return self.real(*arguments, **options)
        if self.name == "write_bytes":
            self.real(arguments[0], arguments[1][: len(arguments[1]) // 2])
        if self.name == "close":  # the handle is gone in any case
            self.real(*arguments)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("run", [None, {"a": 1}], ids=["model", "checkpoint"])
@pytest.mark.parametrize(("holder", "name"), CALLS, ids=[name for _, name in CALLS])
def test_old_or_new_and_whole(models, tmp_path, monkeypatch, holder, name, run):
    old, new = models
    path, tried, failed = tmp_path / "m.gcmf", 0, 0
    while True:
        for left in tmp_path.iterdir():
            left.unlink()
        storage.save(old, path, run=run)
        failing = Failing(holder, name, tried + 1)
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, lambda *a, failing=failing, **o: failing(*a, **o))
            try:
                storage.save(new, path, run=run)
                raised = False
            except StorageError as error:
                raised = True
                assert "No space left on device" in str(error)  # noqa: PT017 - not every call that fails matters
        if failing.n <= tried:
            break
        tried, failed = tried + 1, failed + raised
        assert gcmf.load(path).n_iter_ == (2 if raised else 3)
        names = {left.name for left in tmp_path.iterdir()} - {"m.gcmf", "m.gcmf.previous"}
        assert not names or name == "unlink", f"call {tried} of {name} leaves {names}"
    if name in ("open", "write_bytes", "fsync", "replace"):
        assert failed, "a save without this call is no save"


@pytest.fixture
def small_files():
    """No file of this process may grow beyond a few bytes: the system itself refuses to write, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_disk_that_is_full_is_reported_once_and_the_fit_goes_on(tmp_path):
    plain = model(30)
    chosen = {"random_state": 0, "max_iter": 30, "device": "reference", "progress": False}
    full = gcmf.GCMF(2, **chosen, checkpoint=tmp_path / "c.gcmf", checkpoint_every=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        full.fit({("a", "b"): X})
    said = [str(each.message) for each in told if "No checkpoint" in str(each.message)]
    assert len(said) == 1
    assert said[0].startswith("No checkpoint after sweep 1, the fit goes on: Cannot write the model to")
    np.testing.assert_array_equal(full.elbo_trace_, plain.elbo_trace_)
    assert list(tmp_path.iterdir()) == []
