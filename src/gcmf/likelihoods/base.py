"""What a likelihood is: the mathematics of a cell, of a relation's worth of cells, and of a prediction.

To add one, write a subclass of `Likelihood` in a file of its own and name it in `gcmf/likelihoods/__init__.py`;
CONTRIBUTING.md has an example with a parameter to learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable  # noqa: TC003 - dataclasses and tests look up the types of fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NO_PARAMETERS = np.zeros(0)


class CellMath(NamedTuple):
    """The mathematics of one cell x whose predictor θ has mean m and variance v, at parameters p of its relation.

    Two plain functions of (x, m, v, p), defined at the top of a module and elementwise: the reference engine calls them
    with arrays, compiled engines compile them for single numbers. They may use NumPy's elementwise functions,
    `np.where`, constants of their module and other such functions. p is an array of a few numbers in both cases. (The
    expectations of 0/1 cells and counts do not keep to this: kernels of their own stand for them.)
    """

    quadratic: Callable[..., Any]
    """w and wz: a step from (m, v) to (m′, v′) raises the bound by wz (m′ − m) − w/2 (m′² + v′ − m² − v) or more."""
    value: Callable[..., Any]
    """What is summed over a relation's cells; `slope` times the sum, and terms that need no cells, is the bound."""


class ParameterPrior(NamedTuple):
    """Gamma(shape, rate), the hyper-prior of a learned precision; a `point` is fitted by its mode (MAP)."""

    shape: float
    rate: float
    point: bool


class Likelihood(ABC):
    """Cells of one kind. Subclasses are frozen dataclasses, whose fields are what a user may choose.

    A relation carries a few numbers p, its parameters: those with which it starts (`start`), and where there is
    something to learn, those that `learn` makes of the cells' summed values after each sweep.
    """

    name: str
    """By which users, files and errors call it."""
    support: str
    """Which cells are allowed: "real", "binary" (0 and 1) or "counts" (0, 1, 2, ...)."""
    zero_weight: float = 1.0
    """How many cells each observed zero stands for."""
    least_squares: bool = False
    """Whether w is the same for all cells of a relation and z = x, so that engines need no predictor for them."""
    standardized: bool = False
    """Whether a relation's cells are centered and scaled before they are fitted."""
    if_slow: str = ""
    """For what the bound takes steps that are far too short (`looseness`), and the way out; {} are the relations."""
    if_overdispersed: str = ""
    """The way out where cells vary much more around what was fitted than `variance` allows; "" if that cannot be."""
    trials: Callable[..., Any] | None = None
    """If log p(x|θ) = xψ − t softplus(ψ) up to a function of x, with ψ = θ − shift: the function (x, p) → (t, shift),
    as plain as those of `CellMath`. Given Pólya-Gamma weights such cells are Gaussian, and rows can be drawn so."""
    noise: str = "relation"
    """What has noise of its own: the "relation", its "rows", its "cols", or "both"."""
    widest: float = np.inf
    """Variance of θ beyond which E x says nothing, because the largest θ would decide on it; `mean` takes no larger."""
    searched: bool = False
    """Whether p holds something that no closed form gives: a fit then tries steps of it (`moved`)."""

    # --- while fitting ---------------------------------------------------------------------------------------

    @property
    def quadratic_is_bound(self) -> bool:
        """Whether the quadratic form is a lower bound of E log p(x|θ); if it is not, engines guard their steps."""
        return True

    @property
    def mild(self) -> bool:
        """Whether |f‴| ≤ f″ and |f⁗| ≤ f″ for f = −log p(x|θ) and all θ: a guard need not look at short steps."""
        return False

    @property
    @abstractmethod
    def cell(self) -> CellMath:
        """The mathematics of one cell."""

    def times(self, x: Floats) -> Floats:
        """How many cells each cell stands for."""
        return np.where(x == 0.0, self.zero_weight, 1.0)

    def quadratic(self, x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Weights w and weighted pseudo-data wz of cells, each counted as often as it stands for."""
        w, wz = self.cell.quadratic(x, m, v, p)
        return self.times(x) * w, self.times(x) * wz

    def value(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """What is summed over cells, each counted as often as it stands for."""
        return np.asarray(self.times(x) * self.cell.value(x, m, v, p))

    def constant(self, x: Floats) -> Floats:
        """The terms of log p(x|θ) that depend on x alone; `value` leaves them out."""
        return np.zeros_like(x)

    @abstractmethod
    def intercept(self, mean: float) -> float:
        """θ at which a cell has the given mean."""

    def looseness(self, theta: float) -> float:
        """w/f″ of a cell at its mean, the slope f′ = wm − wz taken on either side of θ: how short the steps are."""
        step = 1e-3 * max(abs(theta), 1.0)
        m, v = np.array([theta - step, theta, theta + step]), np.zeros(3)
        x = np.full(3, self.mean(m, v)[1])
        w, wz = self.quadratic(x, m, v, self.start(float(x[0]), 1.0, ParameterPrior(1.0, 1.0, point=False)))
        slope = w * m - wz
        return float(max(w[1] * 2.0 * step / max(slope[2] - slope[0], 1e-300), 1.0))

    # --- parameters of a relation ----------------------------------------------------------------------------

    def start(self, largest: float, n: float, prior: ParameterPrior) -> Floats:
        """p of a relation of n cells, the largest of which is `largest`, before any fitting."""
        del largest, n, prior
        return NO_PARAMETERS

    def learn(self, p: Floats, total: float, n: float, prior: ParameterPrior) -> Floats:
        """The p that maximises the bound for n cells whose values sum to `total`."""
        del total, n, prior
        return p

    def pinned(self, p: Floats) -> Floats:
        """The numbers at which p stands, where it holds a distribution: as those of a point."""
        return p

    def drawn(self, p: Floats, total: float, n: float, prior: ParameterPrior, rng: np.random.Generator) -> Floats:
        """Draw the parameters given n cells whose values sum to `total`; here, they stay as they were estimated.

        Parameters that are `searched` are drawn along that line by Metropolis' rule, without this.
        """
        del total, n, prior, rng
        return p

    def moved(self, p: Floats, step: float) -> Floats:
        """The p at a step, of either sign, along the line that is searched: in logarithms for what is positive.

        After some of the sweeps a fit measures the cells at p and at steps from it, and keeps what makes the sum of
        `expected` and `divergence` highest. Steps are of size one at first; ends of the line stay where they are.
        """
        del step
        return p

    def slope(self, p: Floats) -> float:
        """By how much the bound changes per unit of the summed values."""
        del p
        return 1.0

    def expected(self, total: float, n: float, p: Floats, prior: ParameterPrior) -> float:
        """Bound of Σ E log p(x|θ) over n cells whose values sum to `total`; linear in `total`, with `slope`."""
        del n, p, prior
        return total

    def divergence(self, n: float, p: Floats, prior: ParameterPrior) -> float:
        """⟨log p⟩ − ⟨log q⟩ of the parameters (a point: their log prior)."""
        del n, p, prior
        return 0.0

    def settled(self, p: Floats, prior: ParameterPrior) -> Floats:
        """What predictions need of p: a few numbers, kept in the model file."""
        del prior
        return p

    def is_settled(self, p: Floats) -> bool:
        """Whether predictions can be made with these numbers, which may come from a file of somebody else."""
        prior = ParameterPrior(1.0, 1.0, point=False)
        return len(p) == len(self.settled(self.start(1.0, 1.0, prior), prior)) and bool(np.isfinite(p).all())

    # --- predictions; p is settled ---------------------------------------------------------------------------

    def noise_variance(self, p: Floats) -> float:
        """Variance of what no predictor explains, where that is one number for all cells; else zero."""
        del p
        return 0.0

    def at_noise(self, p: Floats, share: Any) -> Floats:  # noqa: ANN401 - 1, or an array
        """p of cells whose noise variance is this share of their relation's; may be an array of (len p, cells)."""
        del share
        return p

    @abstractmethod
    def mean(self, m: Floats, v: Floats) -> Floats:
        """E x of a new cell."""

    def rank(self, m: Floats, v: Floats) -> Floats:
        """What rises with the mean, or nearly so, and is quick: by it long lists of cells are cut short."""
        return self.mean(m, v)

    @abstractmethod
    def variance(self, m: Floats, v: Floats, p: Floats) -> Floats:
        """Var x of a new cell."""

    @abstractmethod
    def log_predictive(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """Log probability (density) of a new cell's value x."""

    @abstractmethod
    def deviance(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """−2 log p(x|θ) up to a function of x, at a fixed predictor."""

    # --- cells of a known θ; p is settled. By mean and variance, which is exact for normal and for 0/1 cells ----

    def cdf(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """P(cell <= x | θ). Here: of a normal cell, of 0/1, or of counts with probabilities summed up from zero."""
        certain = np.zeros_like(theta)
        if self.support == "real":
            return np.asarray(ndtr((x - self.mean(theta, certain)) / np.sqrt(self.variance(theta, certain, p))))
        if self.support == "binary":
            return np.where(x < 0.0, 0.0, np.where(x < 1.0, 1.0 - self.mean(theta, certain), 1.0))
        x, theta = np.broadcast_arrays(np.floor(x), theta)
        total = np.zeros(theta.shape)
        for count in range(int(x.max(initial=-1.0)) + 1):
            probability = np.exp(
                self.log_predictive(np.full(theta.shape, float(count)), theta, np.zeros_like(theta), p)
            )
            total += np.where(x >= count, probability, 0.0)
        return np.minimum(total, 1.0)

    def draw(self, theta: Floats, p: Floats, rng: np.random.Generator) -> Floats:
        """Draw a cell for each θ. Here: normal, 0/1, or counts from zero on until P(cell <= x | θ) is reached."""
        certain = np.zeros_like(theta)
        if self.support == "real":
            noise = rng.standard_normal(theta.shape)
            return np.asarray(self.mean(theta, certain) + np.sqrt(self.variance(theta, certain, p)) * noise)
        level = rng.random(theta.shape)
        if self.support == "binary":
            return np.where(level < self.mean(theta, certain), 1.0, 0.0)
        x = np.zeros(theta.shape)
        while (short := self.cdf(x, theta, p) < level).any():
            x += short
        return x
