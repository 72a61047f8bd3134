"""What compiled functions of a cell find in place of `numpy`: the same names, for single numbers."""

from __future__ import annotations

from math import e, exp, expm1, inf, log, log1p, pi, sqrt, tanh

from gcmf.engines.compiled import part

__all__ = ["abs", "e", "exp", "expm1", "inf", "log", "log1p", "maximum", "minimum", "pi", "sqrt", "tanh", "where"]

abs = abs  # noqa: A001 - NumPy's name
maximum, minimum = max, min


@part
def where(condition, value, other):
    """One of two numbers."""
    return value if condition else other
