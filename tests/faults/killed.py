"""A fit with a checkpoint after every sweep, for others to kill.

`python killed.py CASE PATH THREADS [DEVICE [SWEEPS]]`

It goes on from PATH if there is something, says "started" before its first sweep, and at its end a digest of the model.
"""

from __future__ import annotations

import hashlib
import sys
import warnings

import numpy as np
from scipy import sparse

import gcmf
from gcmf.data import zeros
from gcmf.engines import cpu
from gcmf.errors import ConvergenceWarning

PROPER = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
CASES = {
    "vb": {"max_iter": 60},
    "starts": {"n_init": 3, "n_factors": 3, "max_iter": 25},
    "map": {"inference": "map", "priors": PROPER, "n_factors": 4, "max_iter": 60},
    "gibbs": {"inference": "gibbs", "n_samples": 25, "n_burn": 10, "n_chains": 2, "max_iter": 15, "n_factors": 4},
}


def data():
    """Numbers with holes, and rare ones among zeros of which some are drawn."""
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(n, 3)) for n in (60, 40, 90))
    x = u[:, :2] @ v[:, :2].T + 0.5 * rng.normal(size=(60, 40))
    x[rng.random(x.shape) < 0.4] = np.nan
    ones = rng.random((60, 90)) < 1.0 / (1.0 + np.exp(4.0 - u[:, 1:] @ w[:, 1:].T))
    clicks = gcmf.Relation("clicks", "a", "c", sparse.csr_array(ones.astype(float)), "bernoulli", blanks="zero")
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x), clicks])


def digest(model):
    """SHA-256 of all that a model holds, but its parameters."""
    found = hashlib.sha256()

    def walk(value):
        if isinstance(value, np.ndarray):
            found.update(repr((value.dtype.str, value.shape)).encode() + np.ascontiguousarray(value).tobytes())
        elif isinstance(value, dict | list | tuple):
            for part in value.items() if isinstance(value, dict) else value:
                walk(part)
        else:
            found.update(repr(value).encode())

    walk({key: part for key, part in model.to_dict().items() if key != "params"})
    return found.hexdigest()


def fitted(case, path, n_threads, device="auto", sweeps=60):
    """A model of a case; it goes on from the checkpoint, if there is one."""
    zeros.MANY, zeros.PER_ENTITY, zeros.PER_CELL = 1000, 4, 5
    warnings.simplefilter("ignore", ConvergenceWarning)
    if device == "dask":
        cpu.RANGE_COST = 500  # so that every worker has something to do
    model = gcmf.GCMF(
        random_state=0, progress=False, n_threads=int(n_threads), checkpoint=path, checkpoint_every=0, device=device,
        **CASES[case] | {"max_iter": min(CASES[case]["max_iter"], int(sweeps))},
    )  # fmt: skip
    collection = data()
    print("started", flush=True)
    return model.fit(collection, resume=True)


def main(*given):
    print(digest(fitted(*given)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
