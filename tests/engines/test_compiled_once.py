"""However arrays are given, the kernels are compiled once per precision."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import gcmf
from gcmf.engines import cell_kernels, rotation_kernels, row_kernels

KERNELS = (row_kernels.sweep_rows, row_kernels.measure_rows, row_kernels.weigh_rows, cell_kernels.pack,
           rotation_kernels._turn_planes)  # fmt: skip


def forms():
    """The same table as plain, read-only, Fortran-ordered, strided and sparse arrays, and as integers."""
    x = np.random.default_rng(0).normal(size=(12, 10))
    yield x
    frozen = x.copy()
    frozen.flags.writeable = False
    yield frozen
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, axis=1)[:, ::2]
    yield sparse.csr_array(x)
    yield np.round(3 * x).astype(np.int16)


def test_no_form_of_the_data_compiles_anything_new():
    seen = []
    for x in forms():
        blanks = {"blanks": "missing"} if sparse.issparse(x) else {}
        data = gcmf.Collection([gcmf.Relation("x", "a", "b", x, **blanks)])
        gcmf.GCMF(3, max_iter=30, tol=1e-3, random_state=0, progress=False, n_threads=1).fit(data)
        seen.append([len(kernel.signatures) for kernel in KERNELS])
    assert min(seen[0]) > 0, "a fit runs every one of them, or the test shows nothing"
    assert seen == [seen[0]] * len(seen)
