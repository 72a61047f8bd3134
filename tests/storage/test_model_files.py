"""Where a model is written: through links, over nothing but files, with the modes that people chose, and whole."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gcmf
import storage_samples as samples
from gcmf.errors import StorageError
from gcmf.storage import container, files

GOLDEN = Path(__file__).parent / "golden"
#: Probabilities were MacKay's approximation of what quadrature gives now; here they differ by up to 0.0034.
QUADRATURE = 0.005
WRITE_AND_WAIT = """
import os, pathlib, sys, time
from gcmf.storage.files import replacing
with replacing(pathlib.Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half of it")
    print(temporary, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def model():
    x = np.random.default_rng(0).normal(size=(4, 3))
    return gcmf.GCMF(1, random_state=0, device="reference", progress=False).fit({("a", "b"): x})


def test_a_link_stays_a_link(model, tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "m.gcmf", tmp_path / "link.gcmf"
    link.symlink_to(target)
    for _ in range(2):  # where nothing is yet, and over a model
        model.save(link)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert gcmf.load(target).n_iter_ == model.n_iter_
        assert os.listdir(target.parent) == ["m.gcmf"]


def test_links_in_a_circle_are_refused(model, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageError, match=r"Cannot write the model to .*a: "):
        model.save(tmp_path / "a")


def test_what_is_no_file_stays(model, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        server.bind("socket")
        for name in ("pipe", "socket", "/dev/null"):
            before = os.lstat(tmp_path / name)
            with pytest.raises(StorageError, match="it is a device, a pipe or a socket"):
                model.save(tmp_path / name)
            after = os.lstat(tmp_path / name)
            assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    with pytest.raises(StorageError, match="pipe: it is no file"):
        gcmf.load(tmp_path / "pipe")


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_is_respected(model, tmp_path, mask, mode):
    old = os.umask(mask)
    try:
        model.save(tmp_path / "m.gcmf")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m.gcmf").stat().st_mode) == mode


def test_the_mode_of_a_file_is_kept(model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    (tmp_path / "m.gcmf").chmod(0o640)
    model.save(tmp_path / "m.gcmf")
    assert stat.S_IMODE((tmp_path / "m.gcmf").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), MemoryError])
def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(model, tmp_path, monkeypatch, error):
    path = tmp_path / "m.gcmf"
    model.save(path)
    before = path.read_bytes()

    def interrupted(*_):
        raise error

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(StorageError if isinstance(error, OSError) else error):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_save_left_goes_with_the_next(model, tmp_path):
    path = tmp_path / "m.gcmf"
    (tmp_path / ".m.gcmf.notes.tmp").write_text("somebody's")
    with subprocess.Popen([sys.executable, "-c", WRITE_AND_WAIT, path], stdout=subprocess.PIPE, text=True) as writer:
        left = Path(writer.stdout.readline().strip())
        assert left.read_bytes() == b"half of it"
        long_ago = time.time() - 3600
        os.utime(left, (long_ago, long_ago))
        model.save(path)
        assert left.exists(), "its writer still lives"
        writer.kill()
    model.save(path)
    assert sorted(os.listdir(tmp_path)) == [".m.gcmf.notes.tmp", "m.gcmf"]
    gcmf.load(path)


def test_a_young_file_may_have_a_writer(model, tmp_path):
    """Between its making and its lock, or between its closing and its renaming."""
    with files.replacing(tmp_path / "m.gcmf") as temporary:
        pass
    temporary.write_bytes(b"")
    model.save(tmp_path / "m.gcmf")
    assert temporary.exists()


def test_a_folder_that_may_not_be_written_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="you may not write to the folder"):
        gcmf.storage.check(tmp_path / "m.gcmf", {})


# --- formats ------------------------------------------------------------------------------------------------


def test_format_1_answers_as_it_did_and_in_units():
    model = gcmf.load(GOLDEN / "format1.safetensors")
    answers = json.loads((GOLDEN / "format1.json").read_text())
    for name in ("ratings", "plays"):
        assert model.predict(name)[:2] == pytest.approx(np.array(answers[name]), rel=1e-6)
    assert model.predict("tagged")[:2] == pytest.approx(np.array(answers["tagged"]), abs=QUADRATURE)
    # The units stood beside the model, and Python did not use them.
    expected = np.array([40.0, 170.0]) + np.array([10.0, 8.0]) * np.array(answers["user_numbers"])
    assert model.predict("user_numbers")[:2] == pytest.approx(expected, rel=1e-6)
    assert model.fitted_.vocabularies["user"].kind.categories[-1] == "user 12"
    assert (model.n_iter_, model.status_) == (52, gcmf.Status.CONVERGED)


def test_format_1_is_checked_too(tmp_path):
    path = tmp_path / "m.gcmf"
    whole = (GOLDEN / "format1.safetensors").read_bytes()
    columns = ({"weight": [0, 1]}, {"age": [0]}, {"age": [0, -1]}, {"age": [0, 10**400]}, {"age": "x"}, [], None)
    units = ([], {"nobody": {}}, {"plays": {}}, *({"user_numbers": of} for of in columns))
    for extras in (None, [], {"novelty": 1}, *({"units": of} for of in units)):
        path.write_bytes(whole)
        _, document = container.read(path)
        document["extras"] = extras
        write_format_1(path, document)
        with pytest.raises(StorageError, match=r"m\.gcmf is no sound gcmf model"):
            gcmf.load(path)


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_older_formats_answer_as_they_did(version):
    """Written by golden/make.py at the last commits that wrote formats 2 to 6, which it names.

    In format 2, noise was an array of its own; in format 3, no factor was weak; in format 4, there were no covariates;
    in format 5, no relation had scales; in format 6, no model had draws.
    """
    model = gcmf.load(GOLDEN / f"format{version}.safetensors")
    for name, answers in json.loads((GOLDEN / f"format{version}.json").read_text()).items():
        mean, std = model.predict(name, return_std=True)
        old_mean, old_std = np.array(answers["mean"]), np.array(answers["std"])
        if name == "tagged":
            assert mean[:2] == pytest.approx(old_mean, abs=QUADRATURE)
            assert std[:2] ** 2 == pytest.approx(old_std**2, abs=QUADRATURE)
        else:
            assert mean[:2] == pytest.approx(old_mean, rel=1e-6)
            assert std[:2] == pytest.approx(old_std, rel=1e-6)
    assert model.fitted_.n_weak == 0
    assert (model.fitted_.scales is None) == (version < 6)
    assert [*model.fitted_.effects] == (["user"] if version >= 5 else [])
    assert model.fitted_.draws is None
    assert list(model.factors("user", weak=True)) == list(model.factors("user")) == ["F1"]


@pytest.mark.parametrize("name", ["format7", "format7_draws"])
def test_files_of_the_first_version_answer_as_they_did(name):
    """Written by golden/make.py for version 0.1.0, and never again: every later version must read them."""
    model = gcmf.load(GOLDEN / f"{name}.safetensors")
    answers = json.loads((GOLDEN / f"{name}.json").read_text())
    assert list(answers) == ["ratings", "tagged", "plays", "user_numbers", "follows"]
    for relation, old in answers.items():
        mean, std = model.predict(relation, return_std=True)
        assert mean[:2] == pytest.approx(np.array(old["mean"]), rel=1e-6)
        if model.fitted_.draws is None and relation in ("tagged", "follows"):
            # What was written then were deviations of another probability than the mean, and larger.
            assert std == pytest.approx(np.sqrt(mean * (1 - mean)), rel=1e-6)
        elif model.fitted_.draws is None and relation == "plays":
            assert (std[:2] <= np.array(old["std"]) * (1 + 1e-6)).all()
        else:
            assert std[:2] == pytest.approx(np.array(old["std"]), rel=1e-6)
    assert (model.fitted_.draws is not None) == (name == "format7_draws")
    assert model.fitted_.scales is not None
    assert [*model.fitted_.effects] == ["user"]
    if model.fitted_.draws is not None:  # it has no record of how its rows were drawn
        with pytest.raises(StorageError, match=r"saved by an older gcmf.*Fit it again"):
            model.fold_in("user", {"ratings": np.full((1, 8), 7.0)})
        return
    new = model.fold_in("user", {"ratings": np.full((1, 8), 7.0)})
    assert np.isfinite(new.predict("ratings", None, None)).all()


def test_a_file_of_format_3_is_written_again_as_it_was_read(tmp_path):
    old = gcmf.load(GOLDEN / "format3.safetensors")
    old.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    np.testing.assert_array_equal(again.predict("tagged"), old.predict("tagged"))
    assert samples.unpack(tmp_path / "m.gcmf")[0]["fitted"]["n_weak"] == 0


def write_format_1(path, document):
    tensors = {}
    model = container._detach(document, "", tensors)
    head = {"format_version": 1, "sha256": container._checksum(model, tensors), "model": model}
    path.write_bytes(container.save(tensors, {"gcmf": json.dumps(head)}))


def test_parameters_that_gcmf_no_longer_has_are_ignored(model, tmp_path):
    path = tmp_path / "m.gcmf"
    model.save(path)
    document, tensors = samples.unpack(path)
    document["params"] |= {"solver": "newton", "damping": 0.3}
    samples.pack(path, document, tensors)
    assert gcmf.load(path).get_params() == model.get_params()
