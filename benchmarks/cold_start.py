"""How long a newcomer's first fit compiles: `python benchmarks/cold_start.py`, each case in a process with no cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

FIT = """
import sys, time, numpy as np, gcmf
rng = np.random.default_rng(0)
x = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 50)) + float(sys.argv[1]) * rng.normal(size=(100, 50))
start = time.perf_counter()
gcmf.GCMF(5, random_state=0, max_iter=20, progress=False).fit({("a", "b"): x})
print(f"{time.perf_counter() - start:.1f} s")
"""
CASES = {"Gaussian": "1.0", "Gaussian with little noise (both precisions)": "0.1"}


def main() -> None:
    """Print the seconds of each first fit."""
    for name, noise in CASES.items():
        with tempfile.TemporaryDirectory() as cache:
            env = {**os.environ, "NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-W", "ignore", "-c", FIT, noise]
            print(name, subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main()
