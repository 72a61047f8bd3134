"""What compiled functions of a cell find in place of `numpy`: the same names, for single numbers."""

from __future__ import annotations

import builtins
from math import e, exp, expm1, inf, log, log1p, pi, sqrt, tanh

from gcmf.engines.compiled import part

__all__ = ["e", "exp", "expm1", "inf", "log", "log1p", "maximum", "minimum", "pi", "sqrt", "tanh", "where"]

abs, maximum, minimum = builtins.abs, builtins.max, builtins.min


@part
def where(condition, value, other):
    """One of two numbers."""
    return value if condition else other
