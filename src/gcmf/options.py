"""What a fit may be told: frozen, checked once, each field documented."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gcmf.errors import OptionError

Sharing = Literal["group", "common"]
Inference = Literal["vb", "map"]
Solver = Literal["exact", "newton"]
BiasSides = bool | Literal["rows", "cols"]

#: Below this, a Gamma rate or shape counts as vague and the limits of docs/model.md (on/off test) apply.
VAGUE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Gamma(shape, rate) hyper-priors of the precisions; the defaults are vague, as in the paper."""

    alpha_shape: float = 1e-10
    """a₀ of the relevance precisions α."""
    alpha_rate: float = 1e-10
    """b₀ of the relevance precisions α."""
    tau_shape: float = 1e-10
    """p₀ of the noise precisions τ."""
    tau_rate: float = 1e-10
    """q₀ of the noise precisions τ."""

    def __post_init__(self) -> None:
        for name in ("alpha_shape", "alpha_rate", "tau_shape", "tau_rate"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and value > 0):
                msg = f"Priors.{name} must be a positive number. Got {value!r} instead."
                raise OptionError(msg)

    @property
    def vague(self) -> bool:
        """Whether α may reach infinity, so that a factor can be switched off exactly."""
        return max(self.alpha_shape, self.alpha_rate) <= VAGUE


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Everything the driver needs to know apart from the data."""

    n_factors: int = 20
    """K, the number of factors to start from; superfluous ones are switched off."""
    sharing: Sharing = "group"
    """"group": one α per entity set and factor (gCMF). "common": one per factor (CMF)."""
    bias: bool | Mapping[str, BiasSides] = True
    """Row and column biases: for all relations, none, or by relation name (True, False, "rows", "cols")."""
    inference: Inference = "vb"
    """"vb" (posterior means and variances) or "map" (a point estimate, for comparison)."""
    solver: Solver = "exact"
    """"exact": joint solve per row, never lowers the bound. "newton": the paper's damped parallel step."""
    damping: float = 0.3
    """λ of the Newton step."""
    priors: Priors = field(default_factory=Priors)
    """Hyper-priors of α and τ."""
    max_iter: int = 1000
    """Sweeps over all entity sets, at most."""
    tol: float = 1e-6
    """Stop when a sweep raises the bound by less than this fraction of its size."""
    n_init: int = 1
    """Restarts from different random points; the best bound is kept."""
    dtype: str = "float32"
    """Precision of the factors while fitting; sums, bounds and small solves are always float64."""
    device: str = "auto"
    """Engine: "auto", "cpu" (compiled) or "reference" (NumPy, slow, for checking)."""
    n_threads: int | None = None
    """Threads, at most; None takes the cores this process may use."""
    unit_variance: tuple[str, ...] = ()
    """Entity sets whose α is held at 1 (group factor analysis fixes the scale of the samples so)."""
    pattern: Mapping[str, tuple[bool, ...]] | None = None
    """Which factors may live in which entity set, when that is known; nothing is switched on or off then."""

    def __post_init__(self) -> None:
        for check in _CHECKS:
            check(self)


def _one_of(name: str, allowed: tuple[str, ...]) -> Callable[[FitOptions], None]:
    def check(options: FitOptions) -> None:
        value = getattr(options, name)
        if value not in allowed:
            choices = ", ".join(repr(a) for a in allowed)
            msg = f"The '{name}' parameter must be one of {choices}. Got {value!r} instead."
            raise OptionError(msg)

    return check


def _number(name: str, low: float, *, integer: bool, none: bool = False) -> Callable[[FitOptions], None]:
    kind = "an integer" if integer else "a number"

    def check(options: FitOptions) -> None:
        value: Any = getattr(options, name)
        if none and value is None:
            return
        fits = _is_integer(value) if integer else _is_real(value)
        if not fits or value < low:
            also = " or None" if none else ""
            msg = f"The '{name}' parameter must be {kind} >= {low:g}{also}. Got {value!r} instead."
            raise OptionError(msg)

    return check


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float)) or hasattr(value, "__float__")


def _check_bias(options: FitOptions) -> None:
    bias: Any = options.bias
    if isinstance(bias, bool):
        return
    if not isinstance(bias, Mapping):
        msg = f"The 'bias' parameter must be True, False or a mapping from relation names. Got {bias!r}."
        raise OptionError(msg)
    for name, sides in bias.items():
        if sides not in (True, False, "rows", "cols"):
            msg = f"The bias of relation {name!r} must be True, False, 'rows' or 'cols'. Got {sides!r} instead."
            raise OptionError(msg)


def _check_map(options: FitOptions) -> None:
    if options.inference == "map" and options.priors.vague:
        msg = (
            "inference='map' needs proper hyper-priors: with vague ones its objective has no maximum (every factor "
            "shrinks to zero while its precision grows without bound). Give priors=Priors(alpha_shape=1, "
            "alpha_rate=1, tau_shape=1, tau_rate=1), or choose them by cross-validation."
        )
        raise OptionError(msg)


_CHECKS: tuple[Callable[[FitOptions], None], ...] = (
    _number("n_factors", 1, integer=True),
    _one_of("sharing", ("group", "common")),
    _check_bias,
    _one_of("inference", ("vb", "map")),
    _one_of("solver", ("exact", "newton")),
    _number("damping", 1e-6, integer=False),
    _check_map,
    _number("max_iter", 1, integer=True),
    _number("tol", 0.0, integer=False),
    _number("n_init", 1, integer=True),
    _one_of("dtype", ("float32", "float64")),
    _one_of("device", ("auto", "cpu", "reference")),
    _number("n_threads", 1, integer=True, none=True),
)
