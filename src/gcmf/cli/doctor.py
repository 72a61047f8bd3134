"""`gcmf doctor`: whether everything is in place."""

from __future__ import annotations

import os
import platform
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import typer
from rich.text import Text

import gcmf
from gcmf.cli.terminal import AsJson, console, plain_table, show_json

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "scikit-learn", "safetensors", "narwhals", "duckdb", "pyarrow",
             "distributed", "adbc-driver-postgresql", "polars", "anndata", "mudata", "h5py")  # fmt: skip


def doctor(as_json: AsJson = False) -> None:
    """Show versions, threads, devices and the cache, and fit something small; exit code 1 if that goes wrong."""
    report = _examine()
    if as_json:
        show_json(report)
    else:
        _show(report)
    if not report["self_test"]["passed"]:
        raise typer.Exit(1)


def _examine() -> dict[str, Any]:
    from gcmf.engines.gpu.device import find_device
    from gcmf.engines.threads import available_threads

    return {
        "gcmf": gcmf.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "threads": available_threads(),
        "devices": [
            "cpu",
            *(["gpu"] if find_device() else []),
            *(["dask"] if find_spec("distributed") else []),
            "reference",
        ],
        "cache": os.environ.get("NUMBA_CACHE_DIR") or "beside the code, in __pycache__",
        "self_test": _self_test(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _self_test() -> dict[str, Any]:
    """Fit two small matrices that share two factors, and compare the compiled engine with plain NumPy.

    The precision is the default one, whose compiled code is there as soon as anything was fitted.
    """
    started = time.monotonic()
    import numpy as np

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
            warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
            model = GCMF(4, max_iter=5, random_state=0, device=device, progress=False).fit(data)
        bounds[device] = float(model.elbo_)
    gap = abs(bounds["cpu"] - bounds["reference"]) / abs(bounds["reference"])
    return {
        "passed": bool(np.isfinite(gap) and gap < 1e-4),
        "seconds": round(time.monotonic() - ready, 2),
        "import_seconds": round(ready - started, 2),
        "difference": gap,
    }


def _show(report: dict[str, Any]) -> None:
    table = plain_table("what", "found", left=2)
    for name in ("gcmf", "python", "system", "threads", "cache"):
        table.add_row(name, str(report[name]))
    table.add_row("devices", ", ".join(report["devices"]))
    for name, number in report["packages"].items():
        table.add_row(name, number or Text("not installed", "yellow"))
    screen = console()
    screen.print(table)
    test = report["self_test"]
    said = "passed" if test["passed"] else "FAILED: the compiled engine disagrees with plain NumPy"
    took = f"in {test['seconds']} s, after {test['import_seconds']} s of imports"
    screen.print(Text(f"\nself-test {said} {took}", "green" if test["passed"] else "bold red"))
