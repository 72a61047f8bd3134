"""Broken models, checkpoints, tables and project files, a few of each; `make faults` tries 20,000."""

from __future__ import annotations

import os
import warnings

import pytest

from fuzz import mutants, mutations
from gcmf.errors import StorageError


@pytest.fixture
def folder(tmp_path):
    before = os.getcwd()
    os.chdir(tmp_path)
    for made in (mutants._model, mutants._checkpoint, mutants._tables):
        made.cache_clear()
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize(("kind", "n"), [("model", 20), ("checkpoint", 30), ("csv", 24), ("parquet", 15), ("toml", 30)])
def test_mutants_are_refused_or_work(kind, n, folder):
    """Not only the one or the other."""
    found = [mutants.meet(kind, seed) for seed in range(n)]
    assert [f"--seed {seed}: {what}" for seed, what in enumerate(found) if what.startswith("wrong")] == []
    assert {"refused", "works"} <= set(found)


@pytest.mark.parametrize("kind", ["checkpoint", "toml"])
def test_what_was_found_once(kind, folder):
    """Seeds at which something was wrong."""
    seeds = {"checkpoint": (83, 119, 196, 1390), "toml": (222,)}
    assert [mutants.meet(kind, seed) for seed in seeds[kind]] == ["refused"] * len(seeds[kind])


def test_what_is_accepted_wrongly_is_seen(folder, monkeypatch):
    monkeypatch.setattr(mutants, "N_CELLS", 300)
    mutants._tables().to_csv("ratings.csv", index=False)
    (folder / "gcmf.toml").write_text(mutants.PROJECT.format(ending="csv"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert mutants._fit(300) == "works"
        with pytest.raises(mutants.Wrong, match="accepted with 300 cells, where refused was expected"):
            mutants._fit("refused")
        (folder / "ratings.csv").write_text("user,film,rating\n1,2,x\n")
        with pytest.raises(mutants.Wrong, match="refused, though it is sound"):
            mutants._fit(1)


def test_a_model_that_breaks_who_reads_it_is_seen(folder, monkeypatch):
    def fails(*_):
        msg = "absurd"
        raise MemoryError(msg)

    monkeypatch.setattr(mutants.gcmf, "load", fails)
    assert mutants.meet("model", 0) == "wrong: MemoryError: absurd"
    monkeypatch.setattr(mutants.gcmf, "load", lambda _: (_ for _ in ()).throw(StorageError("no")))
    assert mutants.meet("model", 0) == "wrong: refused without its name: no"


def test_a_process_that_dies_or_hangs_is_seen(monkeypatch, tmp_path):
    """The worker, by another program: it dies at the third file, and hangs at the fourth."""
    program = tmp_path / "python"
    program.write_text(
        "#!/bin/sh\ncase $5 in\n0) echo 0 works; echo 1 works;;\n3) exec sleep 60;;\n*) exit 3;;\nesac\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(mutations.sys, "executable", str(program))
    monkeypatch.setattr(mutations, "SECONDS", 0.5)
    found = mutations.watch("csv", 4)
    assert found == {0: "works", 1: "works", 2: "wrong: the process died (0)", 3: "wrong: it takes forever"}
