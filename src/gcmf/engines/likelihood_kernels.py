"""Weights and targets of a chunk of cells, compiled for each likelihood and called by address.

A likelihood brings the mathematics of a cell as plain functions of NumPy arrays (`Likelihood.cell`). Here they are
compiled for single numbers: the same functions, with the names of `scalars.py` in place of NumPy's.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from functools import cache
from pathlib import Path
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError

from gcmf.engines import scalars
from gcmf.engines.compiled import address_of, part
from gcmf.engines.polya_gamma_kernels import polya_gamma
from gcmf.engines.quadrature import quadrature
from gcmf.engines.random_kernels import CELL, DRAWN, IS_LEFT, STREAM
from gcmf.engines.simd import array_at, decay, log_one_plus, logarithm
from gcmf.errors import OptionError
from gcmf.likelihoods.bernoulli import EXACT, TIGHT, one_trial
from gcmf.likelihoods.negative_binomial import NEGATIVE_BINOMIAL, log_rising
from gcmf.likelihoods.poisson import EXACT as POISSON

if TYPE_CHECKING:
    from gcmf.likelihoods import Likelihood

#: Cells that LLVM takes at a time in a plain loop over float32.
UNROLLED = 32
#: What a variant of the functions below is compiled with: the working precision, and the functions of a cell.
real = np.float32
quadratic, value = TIGHT
trials = one_trial
_WORD, _NUMBER = types.intp, types.float64
_SIGNATURE = _NUMBER(_WORD, _WORD, _WORD, _WORD, _WORD, _NUMBER, _WORD, _WORD, _WORD, _WORD, _WORD)
_DRAW_SIGNATURE = _NUMBER(_WORD, _WORD, _WORD, _WORD, _NUMBER, _WORD, _WORD, _WORD, _WORD, _WORD)
#: What is wanted of a chunk; functions may do more.
BOTH, VALUES, WEIGHTS = range(3)


def weigh_chunk_at(likelihood: Likelihood, dtype: np.dtype[Any]) -> int:
    """Where the function of this likelihood lies, compiled for a working precision if it is not yet."""
    try:
        return _weigh_chunk_at(likelihood.cell, np.dtype(dtype))
    except (NumbaError, AttributeError) as error:
        msg = (f"The compiled engine cannot compile the functions of a cell of {likelihood!r}; see CellMath for what "
               f"they may use, or fit with device='reference'. Numba says:\n{error}")  # fmt: skip
        raise OptionError(msg) from error


@cache
def _weigh_chunk_at(cell, dtype):
    if cell == TIGHT:
        return address_of(weigh_tight_bernoulli, _SIGNATURE, dtype.name, real=dtype.type)
    if cell == POISSON:
        return address_of(weigh_poisson, _SIGNATURE, dtype.name, real=dtype.type, **quadrature(dtype.name))
    met = {}
    if cell in (EXACT, NEGATIVE_BINOMIAL):
        names = {"rising": _for_numbers(log_rising, met), "binary": cell == EXACT, **quadrature(dtype.name)}
        suffix = f"{dtype.name}_{'binary' if cell == EXACT else _digest(list(met))}"
        return address_of(weigh_logistic, _SIGNATURE, suffix, real=dtype.type, **names)
    names = {name: _for_numbers(function, met) for name, function in cell._asdict().items()}
    digest = _digest(list(met))
    return address_of(weigh_any, _SIGNATURE, digest and f"{dtype.name}_{digest}", real=dtype.type, **names)


def draw_chunk_at(likelihood: Likelihood, dtype: np.dtype[Any]) -> int:
    """Where the function lies that draws the weights of this likelihood; 0 for one whose cells have none to draw."""
    return 0 if likelihood.trials is None else _draw_chunk_at(likelihood.trials, np.dtype(dtype))


@cache
def _draw_chunk_at(function, dtype):
    met = {}
    names = {"trials": _for_numbers(function, met)}
    digest = _digest(list(met))
    return address_of(draw_weights, _DRAW_SIGNATURE, digest and f"{dtype.name}_{digest}", real=dtype.type, **names)


def draw_weights(n, x_at, m_at, seen_at, zero_weight, n_p, p_at, weight_at, target_at, stream_at):
    """Weights ω ~ PG(t, ψ) and targets x − t/2 + ω shift of n logistic cells, ψ = θ − shift, as in `weigh_any`."""
    x, m, seen = array_at(x_at, (n,), real), array_at(m_at, (n,), real), array_at(seen_at, (n,), real)
    weight, target = array_at(weight_at, (n,), real), array_at(target_at, (n,), real)
    p, stream = array_at(p_at, (n_p,), np.float64), array_at(stream_at, (STREAM,), np.uint64)
    for c in range(n):
        cell = np.float64(x[c])
        times = np.float64(seen[c]) * (zero_weight if cell == 0.0 else 1.0)
        weight[c] = target[c] = 0.0
        if times > 0.0:
            n_trials, shift = trials(cell, p)
            stream[DRAWN] = stream[IS_LEFT] = 0
            w = polya_gamma(times * n_trials, np.float64(m[c]) - shift, stream)
            weight[c], target[c] = w, times * (cell - 0.5 * n_trials) + w * shift
        stream[CELL] += np.uint64(1)
    return 0.0


def weigh_any(n, x_at, m_at, v_at, seen_at, zero_weight, n_p, p_at, weight_at, target_at, wanted):
    """Weights w and targets wz of n cells, one by one and in float64; return the sum of their values.

    x (n,), m and v: values and predictors; seen: how many cells each stands for, 0 for a hole; zero_weight: what that
    is multiplied by where x is zero; p (n_p,): the parameters of the relation; wanted: BOTH, VALUES or WEIGHTS.
    """
    x, m, v = array_at(x_at, (n,), real), array_at(m_at, (n,), real), array_at(v_at, (n,), real)
    seen, p = array_at(seen_at, (n,), real), array_at(p_at, (n_p,), np.float64)
    weight, target, total = array_at(weight_at, (n,), real), array_at(target_at, (n,), real), 0.0
    for c in range(n):
        # Numba's float() would keep float32.
        cell = np.float64(x[c]), np.float64(m[c]), np.float64(v[c])
        times = seen[c] * (zero_weight if cell[0] == 0.0 else 1.0)
        w, wz = quadratic(cell[0], cell[1], cell[2], p)
        target[c], weight[c] = times * wz, times * w
        if times > 0.0:
            total += times * value(cell[0], cell[1], cell[2], p)
    return total


def weigh_tight_bernoulli(n, x_at, m_at, v_at, seen_at, zero_weight, n_p, p_at, weight_at, target_at, wanted):
    """As `weigh_any`, for w = tanh(ξ/2)/(2ξ) and wz = x − 1/2 of 0/1 cells, by a loop that LLVM can vectorise."""
    # Holes up to a whole number of vectors: a remainder would be done one by one.
    padded = (n + UNROLLED - 1) // UNROLLED * UNROLLED
    x, m, v = array_at(x_at, (padded,), real), array_at(m_at, (padded,), real), array_at(v_at, (padded,), real)
    seen, weight = array_at(seen_at, (padded,), real), array_at(weight_at, (padded,), real)
    target = array_at(target_at, (padded,), real)
    for c in range(n, padded):
        seen[c], m[c], v[c] = 0, 0, 0
    one, half, zeros, total = real(1), real(0.5), real(zero_weight), real(0)
    for c in range(padded):
        mean, sign = m[c], x[c] - half
        xi = math.sqrt(mean * mean + v[c])
        e = decay(xi)
        # For small ξ the series of tanh: 1 − exp(−ξ) would cancel.
        y = xi * xi * real(0.25)
        series = real(-1382 / 155925 / 4)
        for coefficient in (62 / 2835 / 4, -17 / 315 / 4, 2 / 15 / 4, -1 / 3 / 4, 1 / 4):
            series = series * y + real(coefficient)
        small = xi < real(0.25)
        safe = one if small else xi
        w = series if small else (one - e) / ((one + e) * (safe + safe))
        times = seen[c] * (zeros if x[c] == 0 else one)
        weight[c], target[c] = times * w, times * sign
        total += times * (sign * mean - xi * half - log_one_plus(e))
    return total


def weigh_logistic(n, x_at, m_at, v_at, seen_at, zero_weight, n_p, p_at, weight_at, target_at, wanted):
    """As `weigh_any`, for values xm − t E softplus(ψ), w = t E σ′(ψ) and wz = wm + x − t E σ(ψ), by vectors.

    0/1 cells: t = 1 and ψ = θ. Negative binomial counts: t = x + r and ψ = θ − log r, with p = (r, log r), and to the
    values belongs what the normal constant has of x and r. Nodes come in pairs, as many as the widest cell needs.
    """
    padded = (n + UNROLLED - 1) // UNROLLED * UNROLLED
    x, m, v = array_at(x_at, (padded,), real), array_at(m_at, (padded,), real), array_at(v_at, (padded,), real)
    seen, weight = array_at(seen_at, (padded,), real), array_at(weight_at, (padded,), real)
    target, p = array_at(target_at, (padded,), real), array_at(p_at, (n_p,), np.float64)
    for c in range(n, padded):
        seen[c], m[c], v[c], x[c] = 0, 0, 0, 0
    one, half, nothing, zeros = real(1), real(0.5), real(0), real(zero_weight)
    log_two = real(math.log(2.0))
    extra, shift = nothing if binary else real(p[0]), nothing if binary else real(p[1])
    widest, smooth = nothing, nothing
    for c in range(padded):
        widest = max(widest, v[c])
        v[c] = math.sqrt(v[c])
        weight[c], target[c] = nothing, nothing
        seen[c] *= zeros if x[c] == 0 else one
        smooth += seen[c] * x[c] * m[c]
    level, total = 0, np.float64(smooth)
    if not binary and wanted != WEIGHTS:
        for c in range(n):
            if x[c] > nothing:
                total += np.float64(seen[c]) * rising(np.float64(x[c]), p[0])
    while level < len(REACH) and widest > REACH[level]:
        level += 1
    for q in range(FIRST_NODE[level], FIRST_NODE[level + 1]):
        node, share, part = real(NODE[q]), real(SHARE[q]), nothing
        # Logarithms and quotients cost about the same: what is not wanted is not computed.
        for c in range(padded if wanted != VALUES else 0):
            step = v[c] * node
            up, down = m[c] - shift + step, m[c] - shift - step
            e, f = decay(abs(up)), decay(abs(down))
            d, g = one + e, one + f
            both = one / (d * g)
            target[c] += share * ((g if up >= nothing else e * g) + (d if down >= nothing else f * d)) * both
            weight[c] += share * (e * g * g + f * d * d) * both * both
        for c in range(padded if wanted != WEIGHTS else 0):
            step = v[c] * node
            up, down = m[c] - shift + step, m[c] - shift - step
            e, f = decay(abs(up)), decay(abs(down))
            # log (1 + e)(1 + f), the product being at most 4.
            excess = e + f + e * f
            large = excess > one
            logs = log_one_plus(half * (excess - one) if large else excess) + (log_two if large else nothing)
            part += seen[c] * (one if binary else x[c] + extra) * (max(up, nothing) + max(down, nothing) + logs)
        total -= np.float64(share) * np.float64(part)
    for c in range(padded):
        trials = one if binary else x[c] + extra
        w = trials * weight[c]
        target[c] = seen[c] * (w * m[c] - trials * target[c] + x[c])
        weight[c] = seen[c] * w
    return total


def weigh_poisson(n, x_at, m_at, v_at, seen_at, zero_weight, n_p, p_at, weight_at, target_at, wanted):
    """As `weigh_any`, for counts of mean s = softplus(θ), by vectors: w = E f″ and wz = wm − E f′."""
    padded = (n + UNROLLED - 1) // UNROLLED * UNROLLED
    x, m, v = array_at(x_at, (padded,), real), array_at(m_at, (padded,), real), array_at(v_at, (padded,), real)
    seen, weight = array_at(seen_at, (padded,), real), array_at(weight_at, (padded,), real)
    target = array_at(target_at, (padded,), real)
    for c in range(n, padded):
        seen[c], m[c], v[c], x[c] = 0, 0, 0, 0
    one, nothing, zeros, lowest, widest = real(1), real(0), real(zero_weight), real(-80), real(0)
    for c in range(padded):
        widest = max(widest, v[c])
        v[c] = math.sqrt(v[c])
        weight[c], target[c] = nothing, nothing
        seen[c] *= zeros if x[c] == 0 else one
    level, total = 0, 0.0
    while level < len(REACH) and widest > REACH[level]:
        level += 1
    for q in range(FIRST_NODE[level], FIRST_NODE[level + 1]):
        node, share, part = real(NODE[q]), real(SHARE[q]), nothing
        for side in range(2):
            toward = node if side == 0 else -node
            for c in range(padded):
                theta = m[c] + v[c] * toward
                held = max(theta, lowest)
                e = decay(abs(held))
                d = one / (one + e)
                sigma = d if held >= nothing else e * d
                rest = e * d if held >= nothing else d
                s = max(held, nothing) + log_one_plus(e)
                # Below θ = −80 the count's mean is its exponential, and log s = θ.
                log_s = logarithm(s) + (theta - held)
                g = sigma / s
                target[c] += share * (sigma - x[c] * g)
                weight[c] += share * (sigma * rest + x[c] * (g * max(g - rest, nothing)))
                part += seen[c] * (x[c] * log_s - s)
        total += np.float64(share) * np.float64(part)
    for c in range(padded):
        w = max(weight[c], real(1e-12))
        target[c] = seen[c] * (w * m[c] - target[c])
        weight[c] = seen[c] * w
    return total


#: See quadrature.py.
REACH, FIRST_NODE, NODE, SHARE, binary, rising = (), (), (), (), True, log_rising


def _for_numbers(function, met):
    """The same function and those it calls, compiled for numbers; `met` collects them all."""
    if function not in met:
        used = set(function.__code__.co_names) & set(function.__globals__)
        names = {name: _replaced(function.__globals__[name], met) for name in sorted(used)}
        cells = tuple(CellType(_replaced(cell.cell_contents, met)) for cell in function.__closure__ or ())
        # Code that was kept looks for its module when it is loaded.
        names["__name__"] = __name__
        met[function] = part(FunctionType(function.__code__, names, function.__name__, None, cells))
    return met[function]


def _replaced(thing, met):
    if isinstance(thing, FunctionType):
        return _for_numbers(thing, met)
    return scalars if thing is np else thing


def _digest(functions):
    """Hash of the names of functions and of the files that they are in; None where it would not tell them apart."""
    digest = hashlib.sha256()
    for function in functions:
        try:
            source = Path(inspect.getfile(function)).read_bytes()
        except (OSError, TypeError):
            return None
        if function.__closure__:
            return None
        digest.update(f"{function.__module__}.{function.__qualname__} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()[:16]
