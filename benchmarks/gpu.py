"""Iterations of a fit on a GPU, through the public names: python -m benchmarks.gpu cells 1e7 1e8; ... streamed 1e8.

`cells`: ratings of a rank of 8 and noise between users and 99,991 items (a prime, so that a user's are distinct),
K = 32: time from sweep to sweep of a variational fit, with noise of rows and columns, of 0/1 cells, and of draws;
the same by the compiled engine for 10⁷ cells, and by a plain PyTorch program. `streamed 1e8`: the same fit with all
cells on the device, with those of one side, and with none, so that they pass through it. `movielens`: seconds until
the held-out RMSE of MovieLens 1M is 0.8385.
"""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import gcmf
from gcmf import datasets
from gcmf.likelihoods import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from gcmf.outcome import StepInfo

    Cells = tuple[np.ndarray, np.ndarray, np.ndarray]

ITEMS, RANK, K = 99_991, 8, 32
ASKED = 0.8385
ONE_NOISE = Gaussian("relation")
#: Sweeps before the first draw that is kept: nothing but the chain is timed.
DRAWS: dict[str, Any] = {"inference": "gibbs", "max_iter": 3, "n_burn": 20, "n_samples": 1}


class Enough(Exception):  # noqa: N818 - no error
    """Raised by a callback that has seen enough sweeps: nothing after the sweeps is to be timed."""


def ratings(n_cells: int, *, seed: int = 0) -> Cells:
    """User, item and value of so many cells, the values drawn on the device."""
    import cupy  # noqa: PLC0415

    n_users = max(n_cells // 1000, 10_000)
    per, rng = n_cells // n_users, np.random.default_rng(seed)
    i = np.repeat(np.arange(n_users, dtype=np.int32), per)
    j, x = np.empty(n_users * per, np.int32), np.empty(n_users * per, np.float32)
    own, theirs = (cupy.asarray(rng.normal(size=(n, RANK)) / RANK**0.5, np.float32) for n in (n_users, ITEMS))
    step = max(4_000_000 // per, 1)
    for first in range(0, n_users, step):
        last = min(first + step, n_users)
        start, stride = (cupy.asarray(rng.integers(low, ITEMS, (last - first, 1))) for low in (0, 1))
        item = (start + stride * cupy.arange(per)) % ITEMS
        theta = cupy.einsum("ik,ijk->ij", own[first:last], theirs[item])
        noise = cupy.random.standard_normal(theta.shape, dtype=np.float32)
        j[first * per : last * per] = cupy.asnumpy(item.astype(np.int32)).ravel()
        x[first * per : last * per] = cupy.asnumpy(theta + noise).ravel()
    return i, j, x


def collection(cells: Cells, likelihood: str | Gaussian = ONE_NOISE) -> gcmf.Collection:
    """One relation; of 0/1 cells, which are positive."""
    i, j, x = cells
    value = (x > 0).astype(np.uint8) if likelihood == "bernoulli" else x
    return gcmf.Collection([gcmf.Relation("x", "user", "item", (i, j, value), likelihood)])


def iterations(
    data: gcmf.Collection,
    n: int,
    *,
    sampled: bool = False,
    bounds: list[float] | None = None,
    **options: Any,  # noqa: ANN401
) -> list[float]:
    """Seconds from sweep to sweep, of n of them after the first three; `bounds` gets the bounds."""
    marks: list[float] = []

    def note(info: StepInfo) -> None:
        if info.sampled == sampled:
            marks.append(time.perf_counter())
        if bounds is not None:
            bounds.append(info.elbo)
        if len(marks) > n + 3:
            raise Enough

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
        with suppress(Enough):
            gcmf.GCMF(K, random_state=0, progress=False, keep="nothing", callbacks=[note], **options).fit(data)
    return np.diff(marks)[2:].tolist()


def of_sizes(sizes: list[int]) -> None:
    """Print a line for each size and kind of fit."""
    for n_cells in sizes:
        cells = _timed(f"{n_cells:.0e} cells drawn", partial(ratings, n_cells))
        data = _timed("collection", partial(collection, cells))
        _print("gaussian, gpu", iterations(data, 8, device="gpu"), n_cells)
        if n_cells <= 10**8:
            _print("gaussian draws, gpu", iterations(data, 8, sampled=True, device="gpu", **DRAWS), n_cells)
        if n_cells <= 10**7:
            _print("gaussian, cpu", iterations(data, 4, device="cpu"), n_cells)
        del data
        if n_cells <= 10**8:
            data = _timed("noise of rows and columns", partial(collection, cells, Gaussian("both")))
            _print("gaussian with noise of both, gpu", iterations(data, 8, device="gpu"), n_cells)
            data = _timed("0/1 collection", partial(collection, cells, "bernoulli"))
            _print("0/1, gpu", iterations(data, 8, device="gpu"), n_cells)
            del data
        _print("plain PyTorch", plain_torch(cells), n_cells)
        del cells


def streamed(n_cells: int) -> None:
    """Print a line for each share of the cells that may lie on the device, and whether the bounds are the same."""
    from gcmf.engines.gpu import engine  # noqa: PLC0415
    from gcmf.engines.gpu.device import require_device  # noqa: PLC0415

    data = _timed("collection", partial(collection, _timed(f"{n_cells:.0e} cells drawn", partial(ratings, n_cells))))
    found = []
    for what, n_bytes in (("all", 17 * n_cells), ("one side", 9 * n_cells), ("none", 0)):
        share = n_bytes / require_device().free_bytes
        with mock.patch.object(engine, "SHARE", share):
            found.append(list[float]())
            _print(f"{what} on the device", iterations(data, 5, device="gpu", bounds=found[-1]), n_cells)
    print(f"the same bounds: {found[0] == found[1] == found[2]} ({len(found[0])} sweeps)")


def plain_torch(cells: Cells, n: int = 5) -> list[float]:
    """The row updates of one Gaussian relation without biases, as plain PyTorch has them: gathers and batched products.

    Every user has as many cells; the items' cells are padded to the longest.
    """
    import cupy  # noqa: PLC0415
    import torch  # noqa: PLC0415

    cupy.get_default_memory_pool().free_all_blocks()
    torch.backends.cuda.matmul.allow_tf32 = False
    i, j, x = (torch.from_numpy(a).cuda() for a in cells)
    n_users = int(i[-1]) + 1
    order = torch.argsort(j, stable=True)
    counts = torch.bincount(j, minlength=ITEMS)
    sides = [(j.view(n_users, -1), x.view(n_users, -1)), _padded(i[order], x[order], counts, n_users)]
    del order, i, j, x
    mean = [0.1 * torch.randn(d + 1, K, device="cuda") for d in (n_users, ITEMS)]
    var = [torch.full((d + 1, K), 0.01, device="cuda") for d in (n_users, ITEMS)]
    for a in (*mean, *var):
        a[-1] = 0.0
    marks = []
    for _ in range(n + 2):
        for side, (partner, value) in enumerate(sides):
            _update(mean[side], var[side], mean[1 - side], var[1 - side], partner, value)
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
    return np.diff(marks)[1:].tolist()


def _padded(partner: Any, value: Any, counts: Any, nowhere: int) -> Any:  # noqa: ANN401 - tensors
    import torch  # noqa: PLC0415

    width, d = int(counts.max()), len(counts)
    first = torch.cumsum(counts, 0) - counts
    owner = torch.repeat_interleave(torch.arange(d, device="cuda", dtype=torch.int32), counts)
    place = torch.arange(len(partner), device="cuda") - first[owner] + owner.long() * width
    partners = torch.full((d * width,), nowhere, device="cuda", dtype=torch.int32)
    values = torch.zeros(d * width, device="cuda")
    partners[place], values[place] = partner, value
    return partners.view(d, width), values.view(d, width)


def _update(mean: Any, var: Any, theirs: Any, their_var: Any, partner: Any, value: Any) -> None:  # noqa: ANN401
    """ū = (I + diag Σ ũ_j + Σ ū_j ū_jᵀ)⁻¹ Σ x ū_j and ũ = 1/diag, by batches of rows."""
    import torch  # noqa: PLC0415

    step = max(20_000_000 // partner.shape[1], 1)
    for first in range(0, len(partner), step):
        rows = slice(first, min(first + step, len(partner)))
        at = partner[rows].long()
        P = theirs[at]
        A = torch.bmm(P.transpose(1, 2), P)
        A.diagonal(dim1=1, dim2=2).add_(1.0 + their_var[at].sum(dim=1))
        h = torch.bmm(value[rows].unsqueeze(1), P).squeeze(1)
        mean[rows] = torch.cholesky_solve(h.unsqueeze(2), torch.linalg.cholesky(A)).squeeze(2)
        var[rows] = 1.0 / A.diagonal(dim1=1, dim2=2)


def movielens() -> None:
    """Print after how many seconds of a fit, compiled before, the held-out error is as asked."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    train, test = datasets.load_movielens_1m(folder / "ml-1m")
    for device in ("gpu", "cpu"):
        sweeps = _sweeps_to(train, test, device)
        for _ in range(3):
            marks = _marks(train, device, sweeps)
            print(f"MovieLens 1M, {device}: {marks[sweeps - 1]:.3f} s to RMSE {ASKED} ({sweeps} sweeps, the first "
                  f"after {marks[0]:.3f} s, then {1e3 * median(np.diff(marks)):.2f} ms each)", flush=True)  # fmt: skip


def _sweeps_to(train: gcmf.Collection, test: gcmf.Collection, device: str) -> int:
    """After how many sweeps the error is as asked: looked at once, since the same seed gives the same bits."""
    i, j, x = test.relations["ratings"].cells.triplets()
    found = []

    def look(info: StepInfo) -> None:
        run = info.snapshot()
        users, movies = (run.state.mean[e] for e in run.spec.ends[0])
        theta = np.einsum("nk,nk->n", users[i], movies[j]) + run.state.bias_mean[0][i] + run.state.bias_mean[1][j]
        predicted = np.clip(run.spec.center[0] + run.spec.scale[0] * theta, 1, 5)
        if np.sqrt(np.mean((predicted - x) ** 2)) <= ASKED:
            found.append(info.iteration)
            raise Enough

    _fit(train, device, look)
    return int(found[0]) if found else 1


def _marks(train: gcmf.Collection, device: str, sweeps: int) -> list[float]:
    marks, started = [], time.perf_counter()

    def note(_: StepInfo) -> None:
        marks.append(time.perf_counter() - started)
        if len(marks) == sweeps:
            raise Enough

    _fit(train, device, note)
    return marks


def _fit(train: gcmf.Collection, device: str, note: Callable[[StepInfo], None]) -> None:
    with suppress(Enough):
        gcmf.GCMF(20, random_state=0, progress=False, device=device, callbacks=[note]).fit(train)


def _timed(what: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401
    started = time.perf_counter()
    made = make()
    print(f"{what}: {time.perf_counter() - started:.1f} s", flush=True)
    return made


def _print(what: str, seconds: list[float], n_cells: int) -> None:
    each = median(seconds)
    print(f"{n_cells:.0e} cells, {what}: {1e3 * each:.2f} ms per iteration ({1e3 * min(seconds):.2f} to "
          f"{1e3 * max(seconds):.2f}), {2 * n_cells / each / 1e9:.2f}·10⁹ visits per second", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "movielens":
        movielens()
    elif sys.argv[1] == "streamed":
        for size in sys.argv[2:]:
            streamed(int(float(size)))
    else:
        of_sizes([int(float(size)) for size in sys.argv[2:]])
