"""The state of an installation: looked at, and shown."""

from __future__ import annotations

import os
import platform
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from rich.text import Text

import gcmf
from gcmf.cli.screen import console, plain_table
from gcmf.engines.threads import available_threads
from gcmf.errors import ConvergenceWarning

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "scikit-learn", "safetensors", "narwhals", "duckdb", "pyarrow",
             "polars", "anndata", "mudata", "h5py")  # fmt: skip


def examine() -> dict[str, Any]:
    """Return versions, threads, devices, the cache of compiled code, and whether a small fit comes out right."""
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "gcmf": gcmf.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": packages,
        "threads": available_threads(),
        "devices": ["cpu", "reference"],
        "cache": os.environ.get("NUMBA_CACHE_DIR") or "beside the code, in __pycache__",
        "self_test": self_test(),
    }


def self_test() -> dict[str, Any]:
    """Fit two small matrices that share two factors, and compare the compiled engine with plain NumPy.

    The precision is the default one, whose compiled code is there as soon as anything was fitted.
    """
    started = time.monotonic()
    GCMF = gcmf.GCMF  # the first use imports what a fit needs
    ready = time.monotonic()
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(20, 2))
    data: dict[tuple[str, ...], Any] = {
        ("a", key): shared @ rng.normal(size=(2, 15)) + 0.1 * rng.normal(size=(20, 15)) for key in ("b", "c")
    }
    bounds = {}
    for device in ("cpu", "reference"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = GCMF(4, max_iter=5, random_state=0, device=device, progress=False).fit(data)
        bounds[device] = float(model.elbo_)
    gap = abs(bounds["cpu"] - bounds["reference"]) / abs(bounds["reference"])
    passed = bool(np.isfinite(gap) and gap < 1e-4)
    done = time.monotonic()
    return {"passed": passed, "seconds": round(done - ready, 2), "import_seconds": round(ready - started, 2),
            "difference": gap}  # fmt: skip


def show(found: dict[str, Any]) -> None:
    """Show what `examine` returns."""
    table = plain_table("what", "found")
    table.columns[1].justify = "left"
    for name in ("gcmf", "python", "system", "threads", "cache"):
        table.add_row(name, str(found[name]))
    table.add_row("devices", ", ".join(found["devices"]))
    for name, number in found["packages"].items():
        table.add_row(name, number or Text("not installed", "yellow"))
    screen = console()
    screen.print(table)
    test = found["self_test"]
    said = "passed" if test["passed"] else "FAILED: the compiled engine disagrees with plain NumPy"
    took = f"in {test['seconds']} s, after {test['import_seconds']} s of imports"
    screen.print(Text(f"\nself-test {said} {took}", "green" if test["passed"] else "bold red"))
