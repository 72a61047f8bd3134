"""Random numbers by counting, compiled: any of them is known from a key and a counter, whoever computes it and when.

The generator is Philox 4×32 with ten rounds (Salmon, Moraes, Dror and Shaw, 2011): a bijection of 128 bits for each key
of 64 bits. A *stream* is an array of `STREAM` words: the key, three words that say whose numbers these are (such as
cell, row and block), and how many were drawn.
"""

from __future__ import annotations

import math

import numpy as np

from gcmf.engines.compiled import part

#: Words of a stream: key, whose numbers these are (three words), pairs drawn, a number left over, and whether one is.
STREAM = 7
KEY, CELL, ROW, BLOCK_WORD, DRAWN, LEFT, IS_LEFT = range(STREAM)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_FIRST_STEP, _SECOND_STEP = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_SHIFT = np.uint64(11)


@part
def philox(key, c0, c1, c2, c3):
    """128 random bits of a counter of four words of 32 bits, as two numbers of 64."""
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(_ROUNDS):
        left, right = _FIRST * c0, _SECOND * c2
        c0, c1, c2, c3 = (right >> _HALF) ^ c1 ^ k0, right & _LOW, (left >> _HALF) ^ c3 ^ k1, left & _LOW
        k0, k1 = (k0 + _FIRST_STEP) & _LOW, (k1 + _SECOND_STEP) & _LOW
    return c0 | (c1 << _HALF), c2 | (c3 << _HALF)


@part
def unit(bits):
    """The upper 53 bits as a number between 0 and 1, neither of which it reaches."""
    return (np.float64(bits >> _SHIFT) + 0.5) * (1.0 / 9007199254740992.0)


@part
def begin(stream, key, cell, row, block):
    """Take the stream of this cell, row and block."""
    stream[KEY], stream[CELL], stream[ROW], stream[BLOCK_WORD] = key, cell, row, block
    stream[DRAWN] = stream[IS_LEFT] = 0


@part
def uniform(stream):
    """The next number between 0 and 1."""
    if stream[IS_LEFT] > 0:
        stream[IS_LEFT] = 0
        return unit(stream[LEFT])
    first, stream[LEFT] = philox(
        stream[KEY], stream[DRAWN] & _LOW, stream[CELL] & _LOW, stream[ROW] & _LOW, stream[BLOCK_WORD] & _LOW
    )
    stream[DRAWN] += np.uint64(1)
    stream[IS_LEFT] = 1
    return unit(first)


@part
def exponential(stream):
    """E ~ Exp(1)."""
    return -math.log(uniform(stream))


@part
def normal(stream):
    """N ~ N(0, 1), by Box and Muller."""
    return math.sqrt(-2.0 * math.log(uniform(stream))) * math.cos(2.0 * math.pi * uniform(stream))


@part
def gamma(shape, stream):
    """G ~ Gamma(shape, 1), by Marsaglia and Tsang (2000); below a shape of one, that of shape + 1 times U^(1/shape)."""
    raised = shape if shape >= 1.0 else shape + 1.0
    d = raised - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    times = 1.0 if shape >= 1.0 else math.exp(math.log(uniform(stream)) / shape)
    while True:
        z = normal(stream)
        v = 1.0 + c * z
        if v > 0.0:
            v = v * v * v
            if math.log(uniform(stream)) < 0.5 * z * z + d - d * v + d * math.log(v):
                return times * d * v
