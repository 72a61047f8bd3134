"""Importing is cheap, and a second process does not compile what the first one compiled."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.estimators import tables

HEAVY = ("numba", "pandas", "sklearn", "matplotlib", "scipy", "rich", "typer", "narwhals", "safetensors",
         "pydantic")  # fmt: skip
FIT = """
import json, numpy as np, gcmf
from gcmf.engines import compiled, row_kernels

make, made = compiled.cfunc, []
compiled.cfunc = lambda *args, **options: lambda function: made.append(make(*args, **options)(function)) or made[-1]
gcmf.GCMF(2, max_iter=30, tol=1e-2, random_state=0, progress=False, dtype="float64").fit(
    {("a", "b"): np.random.default_rng(0).normal(size=(6, 5))})
kernels = (row_kernels.sweep_rows, row_kernels.measure_rows, row_kernels.weigh_rows)
counts = [[sum(k.stats.cache_hits.values()), sum(k.stats.cache_misses.values())] for k in kernels]
print(json.dumps(counts + [[function.cache_hits, 1 - function.cache_hits] for function in made]))
"""


def run(code, **env):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                          env={**os.environ, **env}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_brings_nothing_heavy():
    loaded = run("import sys, json, gcmf; print(json.dumps(sorted(sys.modules)))")
    assert "gcmf" in loaded
    assert not [name for name in HEAVY if name in loaded]


def test_reading_data_needs_no_compiler():
    code = """
import sys, json, numpy as np, gcmf
gcmf.Collection([gcmf.Relation("x", "a", "b", np.eye(3))])
print(json.dumps(sorted(sys.modules)))
"""
    assert not {"numba", "sklearn", "matplotlib"} & set(run(code))


@pytest.mark.parametrize("name", ["GCMF", "Collection", "Status", "Priors"])
def test_names_come_when_they_are_used(name):
    assert run(f"import json, gcmf; print(json.dumps(gcmf.{name}.__name__))") == name


def test_a_second_process_does_not_compile_again(tmp_path):
    first, second = (run(FIT, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first[0][1] > 0, "the first process compiles"
    for _hits, misses in second:
        assert misses == 0
    assert sum(hits for hits, _ in second) > 0
    assert second[0][0] > 0


def test_parts_of_the_package_are_named_for_editors_and_loaded_when_used():
    code = """
import sys, json, gcmf
before = [name for name in ("matplotlib", "numba", "anndata") if name in sys.modules]
print(json.dumps([before, [name in dir(gcmf) for name in gcmf.__all__], gcmf.plot.__name__, gcmf.omics.__name__]))
"""
    before, listed, plot, omics = run(code)
    assert (before, plot, omics) == ([], "gcmf.plot", "gcmf.omics")
    assert all(listed)
    stated = ast.parse(Path(gcmf.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(stated) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(gcmf.__all__) <= names, "a type checker sees only what is imported under TYPE_CHECKING"


def test_answers_have_types():
    hints = {name: inspect.signature(getattr(gcmf.GCMF, name)).return_annotation
             for name in ("factors", "biases", "structure", "variance_explained", "score", "sample")}  # fmt: skip
    assert "Any" not in hints.values()
    returned = [inspect.signature(one).return_annotation for one in get_overloads(gcmf.GCMF.predict)]
    assert returned == [
        "pd.Series[float]",
        "tuple[pd.Series[float], pd.Series[float]]",
        "Floats",
        "tuple[Floats, Floats]",
        "tuple[pd.Series[float], pd.Series[float], pd.Series[float]]",
        "tuple[Floats, Floats, Floats]",
        "tuple[Floats, Floats, Floats, Floats]",
    ]
    assert tables.Frame is pd.DataFrame


def test_loading_and_predicting_need_no_compiler(tmp_path):
    model = gcmf.GCMF(1, max_iter=200, tol=1e-2, random_state=0, device="reference", progress=False)
    model.fit({("a", "b"): np.outer(np.arange(5.0), np.arange(4.0))}).save(tmp_path / "m")
    code = f"""
import sys, json, gcmf
model = gcmf.load({str(tmp_path / "m")!r})
model.predict("a-b", return_std=True), model.factors("a"), model.structure(), model.variance_explained()
print(json.dumps(sorted(sys.modules)))
"""
    assert not {"numba", "matplotlib", "rich", "pydantic"} & set(run(code))
