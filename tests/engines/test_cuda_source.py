"""Numbers that CUDA and Python both know are the same in both."""

from __future__ import annotations

import re

import pytest

from gcmf.engines import polya_gamma_kernels, row_kernels
from gcmf.engines.base import MAX_HALVINGS
from gcmf.engines.gpu.source import Variant, source_of
from gcmf.likelihoods import poisson

SINGLE, DOUBLE = ((Variant(dtype, 16), Variant(dtype, 16, "POISSON_TIGHT_KIND")) for dtype in ("float32", "float64"))


def defined(variants, name):
    """What the sources define a name as; once each."""
    [text] = {text for variant in variants for text in re.findall(rf"^#define {name} (.*)$", source_of(variant), re.M)}
    single, number = variants is SINGLE, re.fullmatch(r"\(SINGLE_PRECISION \? (\S+) : (\S+)\)", text)
    return float(number[1 if single else 2] if number else text)


def test_turns_of_a_guard_follow_from_halvings():
    """The loop of `Pass._hold` looks once before it halves, and twice more after the last half: each has a counter."""
    for variants in (SINGLE, DOUBLE):
        rows = source_of(variants[0])
        assert re.findall(r"^#define N_TURNS (\d+)$", rows, re.M) == [str(MAX_HALVINGS + 3)]
        # More turns than a warp has lanes are cleared too.
        assert "turn < N_TURNS; turn += 32" in rows


@pytest.mark.parametrize(("name", "single", "double"), [
    ("PIVOT", row_kernels.PIVOT, row_kernels.PIVOT),
    ("SLACK", row_kernels.SLACK_SINGLE, row_kernels.SLACK_DOUBLE),
    ("PRECISE", row_kernels.PRECISE_SINGLE, row_kernels.PRECISE_DOUBLE),
    ("SPLIT", polya_gamma_kernels.SPLIT, polya_gamma_kernels.SPLIT),
    ("CURVATURE_PER_COUNT", poisson.CURVATURE_PER_COUNT, poisson.CURVATURE_PER_COUNT),
])  # fmt: skip
def test_constants(name, single, double):
    assert defined(SINGLE, name) == single
    assert defined(DOUBLE, name) == double
