"""Whole sweeps beside minibatches of rows: `python benchmarks/minibatches.py [USERS]`; `... public [USERS]`.

One Gaussian relation of millions of users with 2,000 items, 20 cells per user, K = 16, in plain compiled code: the rows
of users are updated exactly, and what they say of the items, Σ τ ⟨u uᵀ⟩ and Σ τ x ū, is summed up, for four ways:

- whole sweeps: items are updated when all users are;
- stochastic steps: users in parts; after each part S the items' natural parameters go ρ_t = (t + t₀)^−κ of the way to
  N/|S| times the part's sums;
- memoized: the part's sums take the place of those that it had when it was last seen, so that there is no ρ;
- some first: whole sweeps over a twentieth of the users until they have been seen 20 times, one pass in all; then over
  all users.

Printed: held-out error after so many passes over the cells, and the processor's seconds. Held-out cells are of users
whose rows are updated for it, which is not timed. One thread. `public`: whole sweeps and some first, by
`GCMF.fit(data)` and by `GCMF.fit(data, start=GCMF().fit(some))`.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

import gcmf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gcmf.outcome import StepInfo

    Floats = np.ndarray[Any, np.dtype[np.float32]]

USERS, ITEMS, PER_USER, RANK, K = 2_000_000, 2_000, 20, 8, 16
JUDGED, HELD_OUT = 20_000, 5
"""Users who are judged, and cells that are held out of each."""
NOISE = 1.0


@dataclass(frozen=True)
class Ratings:
    """Every user has as many cells."""

    item: np.ndarray[Any, np.dtype[np.int32]]
    """(users, cells each)."""
    x: Floats
    test_item: np.ndarray[Any, np.dtype[np.int32]]
    test_x: Floats


def simulate(n_users: int) -> Ratings:
    """Ratings of rank 8 and noise; some of the first users' cells are held out."""
    rng = np.random.default_rng(0)
    v = rng.normal(size=(ITEMS, RANK)).astype(np.float32)
    popular = np.cumsum(rng.gamma(0.5, size=ITEMS))
    item = np.empty((n_users, PER_USER + HELD_OUT), np.int32)
    x = np.empty(item.shape, np.float32)
    for first in range(0, n_users, 100_000):
        rows = slice(first, min(first + 100_000, n_users))
        n = rows.stop - rows.start
        u = (rng.normal(size=(n, RANK)) / RANK**0.5).astype(np.float32)
        item[rows] = np.searchsorted(popular, rng.random((n, item.shape[1])) * popular[-1])
        x[rows] = np.einsum("ik,ijk->ij", u, v[item[rows]]) + NOISE * rng.normal(size=item[rows].shape)
    seen, hidden = slice(PER_USER), slice(PER_USER, None)
    return Ratings(np.ascontiguousarray(item[:, seen]), np.ascontiguousarray(x[:, seen]),
                   item[:JUDGED, hidden], x[:JUDGED, hidden])  # fmt: skip


@njit(fastmath=True, cache=True)  # type: ignore[untyped-decorator]
def pass_over(item, x, v, v_var, alpha, tau, A, h, mean):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Update rows of users, and add what they say of the items to A (ITEMS, K, K) and h (ITEMS, K).

    ū = (diag α + τ Σ_j (v̄ v̄ᵀ + diag ṽ))⁻¹ τ Σ_j x v̄ and ũ = 1/diag, by Cholesky. Returns Σ (ū² + ũ) of each factor,
    and Σ ⟨(x − uᵀv)²⟩.
    """
    square, error = np.zeros(K), 0.0
    M, b, u, u_var = (np.empty((K, K), np.float32), np.empty(K, np.float32), np.empty(K, np.float32),
                      np.empty(K, np.float32))  # fmt: skip
    for i in range(len(item)):
        M[:] = 0.0
        b[:] = 0.0
        for n in range(item.shape[1]):
            value, theirs, their_var = tau * x[i, n], v[item[i, n]], v_var[item[i, n]]
            for k in range(K):
                b[k] += value * theirs[k]
                w, row = tau * theirs[k], M[k]
                for m in range(K):
                    row[m] += w * theirs[m]
                row[k] += tau * their_var[k]
        for k in range(K):
            M[k, k] += alpha[k]
            u_var[k] = 1.0 / M[k, k]
        for k in range(K):  # M becomes its Cholesky factor, b the solution
            for m in range(k):
                s = M[k, m]
                for q in range(m):
                    s -= M[k, q] * M[m, q]
                M[k, m] = s / M[m, m]
            s = M[k, k]
            for q in range(k):
                s -= M[k, q] * M[k, q]
            M[k, k] = np.sqrt(s)
            s = b[k]
            for q in range(k):
                s -= M[k, q] * b[q]
            b[k] = s / M[k, k]
        for k in range(K - 1, -1, -1):
            s = b[k]
            for q in range(k + 1, K):
                s -= M[q, k] * u[q]
            u[k] = s / M[k, k]
        for k in range(K):
            square[k] += u[k] * u[k] + u_var[k]
        mean[i] = u
        for n in range(item.shape[1]):
            j, theta, spread = item[i, n], np.float32(0.0), np.float32(0.0)
            theirs, their_var, to = v[j], v_var[j], h[j]
            for k in range(K):
                theta += u[k] * theirs[k]
                spread += u[k] * u[k] * their_var[k] + u_var[k] * (theirs[k] * theirs[k] + their_var[k])
                to[k] += x[i, n] * u[k]
                w, row = u[k], A[j, k]
                for m in range(K):
                    row[m] += w * u[m]
                row[k] += u_var[k]
            error += (x[i, n] - theta) ** 2 + spread
    return square, error


@dataclass
class Sums:
    """What n users say: natural parameters of the items but for τ, Σ (ū² + ũ), and the sum of squared errors."""

    A: Any
    h: Any
    square: Any
    error: float
    n: float

    def plus(self, other: Sums, *, own: float, theirs: float) -> Sums:
        """A weighted sum."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sums(*(own * a + theirs * b for a, b in pairs))


class Fit:
    """Items and what all users have in common."""

    def __init__(self, data: Ratings, *, seed: int = 0) -> None:
        self.data = data
        rng = np.random.default_rng(seed)
        self.v = rng.normal(size=(ITEMS, K)).astype(np.float32)
        self.v_var = np.full((ITEMS, K), 0.1, np.float32)
        self.alpha, self.item_alpha, self.tau = np.ones(K), np.ones(K), 1.0 / float(data.x[:10_000].var())

    def sums_of(self, rows: slice) -> Sums:
        """Update the users of a part, with the items as they are."""
        item, x = self.data.item[rows], self.data.x[rows]
        A, h = np.zeros((ITEMS, K, K), np.float32), np.zeros((ITEMS, K), np.float32)
        mean = np.empty((len(item), K), np.float32)
        alpha, tau = self.alpha.astype(np.float32), np.float32(self.tau)
        square, error = pass_over(item, x, self.v, self.v_var, alpha, tau, A, h, mean)
        return Sums(A.astype(float), h.astype(float), square, error, float(len(item)))

    def step(self, sums: Sums) -> None:
        """Update the items, α and τ from sums over users."""
        precision = self.tau * sums.A + np.eye(K) * self.item_alpha
        self.v = np.linalg.solve(precision, self.tau * sums.h[:, :, None])[:, :, 0].astype(np.float32)
        self.v_var = (1.0 / np.diagonal(precision, axis1=1, axis2=2)).astype(np.float32)
        self.alpha = sums.n / sums.square
        self.item_alpha = ITEMS / (self.v.astype(float) ** 2 + self.v_var).sum(axis=0)
        self.tau = float(sums.n * PER_USER / sums.error)

    def judged(self) -> float:
        """RMSE of held-out cells, after the judged users' rows have been updated."""
        item, x = self.data.item[:JUDGED], self.data.x[:JUDGED]
        mean = np.empty((JUDGED, K), np.float32)
        room = np.zeros((ITEMS, K, K), np.float32), np.zeros((ITEMS, K), np.float32)
        pass_over(item, x, self.v, self.v_var, self.alpha.astype(np.float32), np.float32(self.tau), *room, mean)
        found = np.einsum("ik,ijk->ij", mean, self.v[self.data.test_item])
        return float(np.sqrt(np.mean((found - self.data.test_x) ** 2)))


def run(data: Ratings, way: str, *, n_parts: int, passes: int, rate: tuple[float, float] = (1.0, 0.6)) -> Iterator[Any]:
    """Yield (passes over the cells, seconds, held-out RMSE), a few times per pass."""
    fit, n, rng = Fit(data), len(data.item), np.random.default_rng(1)
    edges = np.linspace(0, n, n_parts + 1).astype(int)
    parts = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    every, t, seconds = max(n_parts // 4, 1), 0, 0.0
    total, of_part = None, dict[int, Sums]()
    for _ in range(passes):
        for p in rng.permutation(n_parts).tolist():
            started, t = time.process_time(), t + 1
            found = fit.sums_of(parts[p])
            if way == "memoized":
                before = of_part.get(p)
                total = found if total is None else total.plus(found, own=1.0, theirs=1.0)
                total = total if before is None else total.plus(before, own=1.0, theirs=-1.0)
                of_part[p] = found
                fit.step(total.plus(total, own=n / total.n, theirs=0.0))
            else:
                rho = 1.0 if n_parts == 1 else (t - 1 + rate[0]) ** -rate[1]
                scaled = found.plus(found, own=n / found.n, theirs=0.0)
                total = scaled if total is None else total.plus(scaled, own=1.0 - rho, theirs=rho)
                fit.step(total)
            seconds += time.process_time() - started
            if t % every == 0:
                yield t / n_parts, seconds, fit.judged()


def some_first(data: Ratings, *, share: int, passes: int) -> Iterator[Any]:
    """Yield the same for sweeps over one of so many users, and then over all."""
    fit, n, seconds, done = Fit(data), len(data.item), 0.0, 0.0
    for t in range(share + passes):
        started = time.process_time()
        rows = slice(n // share if t < share else n)
        fit.step(fit.sums_of(rows))
        seconds, done = seconds + time.process_time() - started, done + rows.stop / n
        if t % 5 == 4 or t >= share:
            yield done, seconds, fit.judged()


def main(n_users: int) -> None:
    """Print a curve for each way, and when each comes within 0.1% of the lowest error of whole sweeps."""
    data = simulate(n_users)
    run_once = Fit(data)
    run_once.sums_of(slice(100))
    print(f"{n_users:,} users, {ITEMS:,} items, {PER_USER} cells per user, K = {K}", flush=True)
    ways = [("whole sweeps", 1, 25, (1.0, 1.0))]
    ways += [("stochastic", n_parts, 3, (1.0, kappa)) for n_parts, kappa in ((100, 0.5), (100, 0.7), (400, 0.6))]
    ways += [("memoized", 100, 3, (1.0, 1.0)), ("some first", 20, 4, (1.0, 1.0))]
    asked = np.inf
    for way, n_parts, passes, rate in ways:
        if way == "some first":
            curve = list(some_first(data, share=n_parts, passes=passes))
        else:
            curve = list(run(data, way, n_parts=n_parts, passes=passes, rate=rate))
        asked = min(1.001 * min(point[2] for point in curve), asked) if n_parts == 1 else asked
        reached = next(((p, s) for p, s, error in curve if error <= asked), None)
        kappa = f", κ = {rate[1]}" if way == "stochastic" else ""
        print(f"\n{way}, parts: {n_parts}{kappa}: {asked:.4f} " + ("never" if reached is None else
              f"after {reached[0]:.2f} passes, {reached[1]:.1f} s"))  # fmt: skip
        print("  " + ", ".join(f"{p:g}: {error:.4f} ({s:.1f} s)" for p, s, error in curve), flush=True)


# --- by public names ----------------------------------------------------------------------------------------


def public(n_users: int) -> None:
    """Print held-out errors and seconds of a fit of all users, and of one that starts from a twentieth of them."""
    data = simulate(n_users)
    some, everyone = (collection(data, n) for n in (n_users // 20, n_users))
    followed(data, some, max_iter=2)  # compiles
    print(f"{n_users:,} users, {everyone.n_cells:,} cells", flush=True)
    show("all users", followed(data, everyone, max_iter=30)[0])
    curve, model = followed(data, some, max_iter=40)
    show("a twentieth", curve)
    show("then all", followed(data, everyone, max_iter=8, start=model, seconds=curve[-1][0])[0])


def collection(data: Ratings, n: int) -> gcmf.Collection:
    """The cells of the first n users, each once."""
    place = np.arange(n)[:, None] * np.int64(ITEMS) + data.item[:n]
    place, first = np.unique(place, return_index=True)
    i, j = np.divmod(place, ITEMS)
    ids = {"user": np.arange(n), "item": np.arange(ITEMS)}
    return gcmf.Collection([gcmf.Relation("x", "user", "item", (i, j, data.x[:n].ravel()[first]))], ids)


def followed(
    data: Ratings, cells: gcmf.Collection, *, max_iter: int, start: gcmf.GCMF | None = None, seconds: float = 0.0
) -> tuple[list[tuple[float, float]], gcmf.GCMF]:
    """Seconds, from so many on, and held-out error after each sweep; and the model. Looking is not timed."""
    curve, looked, began = list[tuple[float, float]](), 0.0, time.process_time()

    def look(info: StepInfo) -> None:
        nonlocal looked
        at = time.process_time()
        run = info.snapshot()
        u, v = (run.state.mean[e] for e in run.spec.ends[0])
        n = min(JUDGED, len(u))
        user, item = np.arange(n)[:, None], data.test_item[:n]
        theta = np.einsum("ik,ijk->ij", u[:n], v[item])
        theta += run.state.bias_mean[0][user] + run.state.bias_mean[1][item]
        found = run.spec.center[0] + run.spec.scale[0] * theta
        curve.append((seconds + at - began - looked, float(np.sqrt(np.mean((found - data.test_x[:n]) ** 2)))))
        looked += time.process_time() - at

    model = gcmf.GCMF(K, max_iter=max_iter, random_state=0, progress=False, n_threads=1, keep="nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
        model.set_params(callbacks=[look]).fit(cells, start=start)
    curve.append((seconds + time.process_time() - began - looked, curve[-1][1]))
    return curve, model


def show(what: str, curve: list[tuple[float, float]]) -> None:
    """Print a curve; its last point is the end of the fit."""
    print(f"{what}: " + ", ".join(f"{error:.4f} ({at:.1f} s)" for at, error in curve), flush=True)


if __name__ == "__main__":
    by_public_names, given = "public" in sys.argv, [float(one) for one in sys.argv[1:] if one != "public"]
    (public if by_public_names else main)(int(given[0]) if given else USERS)
