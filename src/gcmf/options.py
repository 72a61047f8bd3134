"""What a fit may be told: frozen, checked once, each field documented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal

import numpy as np

from gcmf.errors import OptionError, did_you_mean

RandomState = int | np.random.Generator | np.random.RandomState | None
"""What a `random_state` may be."""

Sharing = Literal["group", "common"]
Inference = Literal["vb", "map", "gibbs"]
Keep = Literal["auto", "pairs", "nothing"]
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
        for name in (prior.name for prior in fields(self)):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                msg = f"Priors.{name} must be a positive, finite number. Got {value!r} instead."
                raise OptionError(msg)
            object.__setattr__(self, name, float(value))

    @classmethod
    def of(cls, given: Priors | Mapping[str, float] | None) -> Priors:
        """Return priors given as such, as a mapping of their fields, or not at all (the vague ones)."""
        if isinstance(given, cls):
            return given
        known = [prior.name for prior in fields(cls)]
        if given is not None and not isinstance(given, Mapping):
            msg = (
                f"The 'priors' parameter must be Priors(...), a mapping of {', '.join(known)}, or None. Got {given!r}."
            )
            raise OptionError(msg)
        for name in given or ():
            if name not in known:
                msg = f"Priors has no {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}"
                raise OptionError(msg)
        return cls(**(given or {}))

    @property
    def vague(self) -> bool:
        """Whether α may reach infinity, so that a factor can be switched off exactly."""
        return max(self.alpha_shape, self.alpha_rate) <= VAGUE


#: Factors to start from where their number is left to the fit.
AUTO_START = 20


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Everything the driver needs to know apart from the data."""

    n_factors: int | Literal["auto"] = "auto"
    """Factors at most, or "auto": as many as pay for themselves. Superfluous ones are switched off either way."""
    sharing: Sharing = "group"
    """"group": one α per entity set and factor (gCMF). "common": one per factor (CMF)."""
    bias: bool | Mapping[str, BiasSides] = True
    """Row and column biases: for all relations, none, or by relation name (True, False, "rows", "cols")."""
    relation_scales: bool | Literal["auto"] = "auto"
    """A scale per relation and factor: True, False, or "auto": where the schema can profit (an odd cycle, a repeated
    relation, a relation of a set with itself)."""
    inference: Inference = "vb"
    """"vb" (posterior means and variances), "gibbs" (draws, from there on) or "map" (a point estimate)."""
    n_samples: int = 200
    """Draws of each chain ("gibbs")."""
    n_burn: int = 50
    """Sweeps of each chain before its first draw ("gibbs")."""
    n_chains: int = 1
    """Chains, one after the other ("gibbs")."""
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
    """Engine: "auto", "cpu" (compiled), "gpu" (CUDA), "dask" (a cluster) or "reference" (NumPy, slow, for checking);
    "auto" is a GPU for large data where there is one, else "cpu". `engines/select.py` checks it."""
    n_threads: int | None = None
    """Threads, at most; None takes the cores this process may use."""
    keep: Keep = "auto"
    """Whether the model keeps which cells were observed (not their values), so that what was seen is not recommended:
    "pairs", "nothing", or "auto": where they are not more than 20 million, which take 20 to 40 MB."""
    unit_variance: tuple[str, ...] = ()
    """Entity sets whose α is held at 1 (group factor analysis fixes the scale of the samples so)."""
    pattern: Mapping[str, tuple[bool, ...]] | None = None
    """Which factors may live in which entity set, when that is known; nothing is switched on or off then."""
    reach: Mapping[str, tuple[bool, ...]] | None = None
    """Beside a pattern: which factors each relation sees, where relations have scales."""
    refined: bool = True
    """Whether weak factors, which are no part of the structure, are kept where they help to predict."""
    widened: bool = False
    """Whether what remains of a fit has the variances of `model/spread.py`, with which error bars hold, and not q's."""

    def __post_init__(self) -> None:
        for name, low in (("max_iter", 1), ("n_init", 1), ("n_samples", 1), ("n_burn", 0), ("n_chains", 1)):
            check_integer(name, getattr(self, name), low)
        if not isinstance(self.n_factors, str) or self.n_factors != "auto":
            check_integer("n_factors", self.n_factors, 1, also=" or 'auto'")
        if self.n_threads is not None:
            check_integer("n_threads", self.n_threads, 1, also=" or None")
        if not is_number(self.tol) or self.tol < 0:
            msg = f"The 'tol' parameter must be a finite number >= 0. Got {self.tol!r} instead."
            raise OptionError(msg)
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        _check_bias(self.bias)
        object.__setattr__(self, "priors", Priors.of(self.priors))
        _check_map(self)

    @property
    def n_start(self) -> int:
        """Factors to start from."""
        return AUTO_START if self.n_factors == "auto" else self.n_factors

    @classmethod
    def of(cls, estimator: Any, **more: Any) -> FitOptions:  # noqa: ANN401 - whatever has parameters
        """Return the options that an estimator has as parameters, some of them replaced or more given."""
        names = {option.name for option in fields(cls)}
        given = {name: value for name, value in estimator.get_params(deep=False).items() if name in names}
        return cls(**{**given, **more})


_CHOICES: dict[str, tuple[str | bool, ...]] = {
    "sharing": ("group", "common"),
    "relation_scales": (True, False, "auto"),
    "inference": ("vb", "map", "gibbs"),
    "dtype": ("float32", "float64"),
    "keep": ("auto", "pairs", "nothing"),
}


# --- checks, for whoever takes options ----------------------------------------------------------------------


def is_number(value: Any) -> bool:  # noqa: ANN401 - what is checked
    """Whether a value is a finite real number; True and False are not numbers."""
    try:
        return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def is_integer(value: Any) -> bool:  # noqa: ANN401 - what is checked
    """Whether a value is a whole number of an integer type; True and False are not numbers."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def check_integer(name: str, value: Any, low: int, *, also: str = "") -> None:  # noqa: ANN401 - what is checked
    """Refuse what is not an integer of at least `low`."""
    if not is_integer(value) or value < low:
        msg = f"The '{name}' parameter must be an integer >= {low}{also}. Got {value!r} instead."
        raise OptionError(msg)


def check_choice(name: str, value: object, allowed: tuple[str | bool, ...] = (True, False)) -> int:
    """Refuse what is none of the words or truth values allowed; return which of them it is."""
    if not isinstance(value, str | bool | np.bool_) or value not in allowed:
        choices = ", ".join(map(repr, allowed))
        msg = f"The '{name}' parameter must be one of {choices}. Got {value!r} instead."
        raise OptionError(msg)
    return allowed.index(value)


def check_level(value: Any) -> None:  # noqa: ANN401 - what is checked
    """Refuse an interval that is neither None nor a probability."""
    if value is not None and not (is_number(value) and 0 < value < 1):
        msg = f"The 'interval' parameter must be a probability between 0 and 1, such as 0.9, or None. Got {value!r}."
        raise OptionError(msg)


def check_path(name: str, value: object) -> None:
    """Refuse what is neither a path nor None."""
    if value is not None and not isinstance(value, str | PathLike):
        msg = f"The '{name}' parameter must be a path or None. Got {value!r} instead."
        raise OptionError(msg)


def listed_callbacks(given: object) -> list[Callable[..., object]]:
    """Return callbacks as a list; a single function is a list of one."""
    callbacks: list[Any] = [given] if callable(given) or not isinstance(given, Iterable) else list(given)
    for callback in callbacks:
        if not callable(callback):
            msg = f"The 'callbacks' parameter must be a function or a list of functions. Got {callback!r} instead."
            raise OptionError(msg)
    return callbacks


def as_generator(seed: Any) -> np.random.Generator:  # noqa: ANN401 - what is checked
    """Return the source of random numbers that a `random_state` stands for."""
    if isinstance(seed, np.random.Generator):
        can_spawn = hasattr(seed.bit_generator.seed_seq, "spawn")
        return seed if can_spawn else np.random.default_rng(int(seed.integers(2**31 - 1)))
    if isinstance(seed, np.random.RandomState):
        # scikit-learn's own kind: draw a seed, so that it moves on as its users expect.
        return np.random.default_rng(int(seed.randint(2**31 - 1)))
    if seed is None or (is_integer(seed) and seed >= 0):
        return np.random.default_rng(seed)
    msg = (
        "The 'random_state' parameter must be an integer >= 0, a numpy Generator or RandomState, or None."
        f" Got {seed!r} instead."
    )
    raise OptionError(msg)


def _check_bias(bias: object) -> None:
    if isinstance(bias, bool):
        return
    if not isinstance(bias, Mapping):
        msg = f"The 'bias' parameter must be True, False or a mapping from relation names. Got {bias!r}."
        raise OptionError(msg)
    for name, sides in bias.items():
        if not (isinstance(sides, bool) or (isinstance(sides, str) and sides in ("rows", "cols"))):
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
