"""`python tests/plain.py [pytest's arguments]`: tests as on an old processor, without the newest instruction sets.

NumPy, BLAS and Numba choose their code by the processor they find, and so the last bits of sums, products and
exponentials differ between machines. Here all three are held to what every processor of the kind has: an equality
of numbers that holds by chance on this machine shows.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

#: OpenBLAS's name for the oldest processor of each kind that its wheels support; others choose as ever.
OLDEST_CORE = {"x86_64": "Nehalem", "amd64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}


def environment() -> dict[str, str]:
    """The variables that switch the instruction sets off; to be set before NumPy is imported."""
    # Only features that NumPy found beyond its baseline can be disabled: it warns about any other.
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    variables = {
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        # Apart from the code for this processor, so that neither is compiled again and again.
        "NUMBA_CACHE_DIR": str(Path(sys.prefix) / "numba-plain"),
    }
    core = OLDEST_CORE.get(platform.machine().lower())
    return {**variables, "OPENBLAS_CORETYPE": core} if core else variables


def main() -> int:
    """Run pytest so."""
    variables = {name: os.environ.get(name, value) for name, value in environment().items()}
    for name, value in variables.items():
        print(f"{name}={value}", flush=True)
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
