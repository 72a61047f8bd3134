"""GCMF: fit a collection, then ask."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from gcmf import storage
from gcmf.data.collection import Collection
from gcmf.data.schema import TIMES
from gcmf.errors import (
    ConvergenceWarning,
    GcmfError,
    ModelWarning,
    OptionError,
    UnknownIdError,
    counted,
    did_you_mean,
    few,
)
from gcmf.estimators.answers import Answers
from gcmf.estimators.asking import fitted_of, is_turned, locate, pair
from gcmf.estimators.checkpoints import Checkpoint
from gcmf.estimators.progress import log_end, log_start, watch
from gcmf.estimators.tables import (
    Frame,
    bias_table,
    diagnostic_table,
    effect_table,
    explained_table,
    factor_table,
    give,
    like,
    mate_table,
    noise_table,
    strength_table,
    structure_table,
)
from gcmf.fit import fit
from gcmf.interrupts import Interrupts
from gcmf.markup import shown_table
from gcmf.model.predict import predict_grid, predict_pairs
from gcmf.model.sample import sample_cells, sample_theta
from gcmf.model.score import OF_BINARY, score_cells
from gcmf.model.structure import roles
from gcmf.options import (
    FitOptions,
    as_generator,
    check_choice,
    check_integer,
    check_level,
    check_path,
    is_number,
    listed_callbacks,
)
from gcmf.storage.collective import describe_fitted, read_fitted
from gcmf.storage.files import claiming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from gcmf.data.bound import BoundRelation
    from gcmf.data.id_kind import Ids
    from gcmf.data.relation import Relation
    from gcmf.data.schema import Schema
    from gcmf.model.fitted import Fitted
    from gcmf.options import BiasSides, Inference, Keep, Priors, RandomState, Sharing
    from gcmf.outcome import Status, StepInfo

    Floats = NDArray[np.float64]
    Data = Collection | Relation | Sequence[Relation] | Mapping[tuple[str, ...], Any]

Unknown = Literal["error", "prior"]
Predictions = Any
"""Means, and what else was asked for: arrays, or columns where ids were columns. `predict` has an overload for each."""


class UnfittedError(GcmfError, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """A model was asked before it was fitted."""


@dataclass(kw_only=True, eq=False, repr=False)
class GCMF(Answers, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Group-sparse collective matrix factorization.

    Every cell of every relation is modelled by θ = u_row · u_col + b_row + b_col, with one vector u per entity,
    shared by all relations the entity takes part in. Which factors are shared by all relations, by some, or
    private to one is found by automatic relevance determination; nothing needs tuning.

    Parameters
    ----------
    n_factors
        "auto" (the default) takes as many factors as pay for themselves. A number is a cap: superfluous ones are
        switched off, and `status_` says so if the cap binds.
    sharing
        "group" lets each entity set choose its factors (gCMF); "common" makes all factors shared (CMF).
    bias
        Row and column biases: True, False, or by relation name, e.g. {"ratings": True, "genres": "cols"}.
    relation_scales
        A scale per relation and factor, so that a factor can act in each relation with another strength or sign, or
        not at all: True, False, or "auto" (where an odd cycle, a repeated relation or one of a set with itself is).
    inference
        "vb" for variational Bayes; "gibbs" for draws that start from there: slower, and better where rows have few
        cells or whole views are missing; "map" for a point estimate (needs proper `priors`).
    n_samples, n_burn, n_chains
        With "gibbs": draws of each chain, sweeps before its first one, and chains.
    priors
        `Priors(...)` of the precisions, or a mapping of its fields; vague by default.
    max_iter, tol
        Sweep at most `max_iter` times, until a sweep raises the bound by less than `tol` of its size.
    n_init
        Random starts; the one with the best bound is kept. Where none finds a factor, two more are tried.
    random_state
        Seed (int), numpy Generator or RandomState, or None. The same seed gives the same bits for any number of
        threads.
    dtype
        "float32" or "float64", the precision of the factors while fitting.
    device
        "cpu", "gpu" (CUDA, by `pip install gcmf[gpu]`), "dask" (a cluster, by `pip install gcmf[dask]`: the workers of
        the current client, or else processes of this machine), "reference" (plain NumPy, slow, for checking), or
        "auto": a GPU where there is one and the data have millions of cells, else "cpu".
    n_threads
        At most so many threads; None takes every core this process may use.
    keep
        Whether the model keeps which cells were observed (not their values), in its file too, so that `recommend` can
        leave out what was seen: "pairs", "nothing", or "auto" (where they are at most 20 million, 20 to 40 MB).
    progress
        True, False, or "auto": a progress bar if a person is watching and the fit takes more than two seconds.
    callbacks
        A function, or several, called with a `StepInfo` after every sweep; one that returns True stops the fit.
    checkpoint, checkpoint_every
        A path where the model of the sweep is saved every so many seconds while fitting, and when the fit is stopped.
        The one before stays beside it (".previous"). `fit(data, resume=True)` goes on from there, and ends with the
        same bits as a fit that nobody has stopped.

    Attributes
    ----------
    n_iter_, status_, elbo_, elbo_trace_, n_factors_active_
        How the fit went; `status_` says in words what to do if it did not converge. `elbo_` is the bound of the settled
        structure, by which fits of the same data compare; in `elbo_trace_` sweeps follow that refine predictions. Of a
        sampled model, the bound is the log joint density, after every sweep of every chain.
    """

    n_factors: int | Literal["auto"] = field(default="auto", kw_only=False)
    sharing: Sharing = "group"
    bias: bool | Mapping[str, BiasSides] = True
    relation_scales: bool | Literal["auto"] = "auto"
    inference: Inference = "vb"
    n_samples: int = 200
    n_burn: int = 50
    n_chains: int = 1
    priors: Priors | Mapping[str, float] | None = None
    max_iter: int = 1000
    tol: float = 1e-6
    n_init: int = 1
    random_state: RandomState = None
    dtype: str = "float32"
    device: str = "auto"
    n_threads: int | None = None
    keep: Keep = "auto"
    progress: bool | Literal["auto"] = "auto"
    callbacks: Callable[[StepInfo], object] | Sequence[Callable[[StepInfo], object]] = ()
    checkpoint: str | Path | None = None
    checkpoint_every: float = 60.0

    _frame = "pandas"  # the kind of frame that answers are given in

    # --- fit ---------------------------------------------------------------------------------------------------

    def fit(self, data: Data, y: None = None, *, start: GCMF | None = None, resume: bool = False) -> GCMF:
        """Fit a Collection, a Relation, a list of relations, or a mapping of arrays.

        A mapping is {("user", "movie"): X, ("user", "trait", "name"): Y}, as `Collection.from_mapping` takes it.
        `start` is a fitted model of the same relations to go on from, after more cells or entities have come: a few
        sweeps are enough then. Its factors stay where they live; fit without it to have them looked for again.
        `resume=True` goes on from the last `checkpoint` of the same fit (same data, same options), if there is one.
        """
        del y
        check_choice("resume", resume)
        return self._fit(data, self._options(), start, resume=resume)

    def _fit(self, data: Data, options: FitOptions, start: GCMF | None = None, *, resume: bool = False) -> GCMF:
        data = Collection.of(data, caller=f"{type(self).__name__}.fit")
        rng = as_generator(self.random_state)
        self._frame = data.frame
        model, keeper = None if start is None else fitted_of(start, "start="), None
        if self.checkpoint is not None:
            keeper = Checkpoint(self, data, options, model)
        elif resume:
            msg = "resume=True goes on from a checkpoint: name its file, GCMF(checkpoint=path)."
            raise OptionError(msg)
        before = keeper.found() if keeper is not None and resume else None
        log_start(self, data)
        # Ctrl-C waits until there is a model: what follows the last sweep may take a while.
        with Interrupts(), claiming(self.checkpoint):
            with watch(self) as callbacks:
                result = fit(data, options, rng, callbacks, model=model, keeper=keeper, before=before)
            self._settle(result.summarize(data), result.trace, result.status, result.n_settled)
            if keeper is not None and before is not None:
                keeper.check_end(self)
        log_end(self)
        if result.trouble:
            warnings.warn(f"{type(self).__name__}: {result.trouble}", ConvergenceWarning, stacklevel=3)
        doubts = result.doubts(data)
        if doubts:
            warnings.warn(f"{type(self).__name__}: {doubts}", ModelWarning, stacklevel=3)
        return self

    def _options(self, **more: Any) -> FitOptions:
        check_choice("progress", self.progress, (True, False, "auto"))
        check_path("checkpoint", self.checkpoint)
        if not is_number(self.checkpoint_every) or self.checkpoint_every < 0:
            msg = f"The 'checkpoint_every' parameter must be a number of seconds >= 0. Got {self.checkpoint_every!r}."
            raise OptionError(msg)
        listed_callbacks(self.callbacks)
        return FitOptions.of(self, widened=True, **more)

    def _settle(self, fitted: Fitted, trace: Sequence[float], status: Status, n_settled: int | None = None) -> None:
        self._fitted = fitted
        self._made_of = None
        self.status_ = status
        self.elbo_trace_ = np.array(trace)
        self._n_settled = n_settled
        self.elbo_ = float(trace[(n_settled or 0) - 1]) if len(trace) else float("nan")
        self.n_iter_ = len(trace)
        self.n_factors_active_ = fitted.n_factors

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    @property
    def fitted_(self) -> Fitted:
        """The fitted model behind the answers."""
        if not hasattr(self, "_fitted"):
            msg = f"This {type(self).__name__} is not fitted yet: call fit(data) first."
            raise UnfittedError(msg)
        return self._fitted

    @property
    def schema_(self) -> Schema:
        """Entity sets and relations of the fitted collection."""
        return self.fitted_.schema

    # --- read --------------------------------------------------------------------------------------------------

    def factors(self, entity: str, *, std: bool = False, weak: bool = False) -> Frame:
        """Posterior means (or with `std=True` standard deviations) of the factors of one entity set, ids × factors.

        `weak=True` adds those that do not pass the on/off test but help to predict (W1, W2, ...), see `structure`.

        This and every other table is of polars if the collection was made of polars frames, with the ids as first
        column, and else of pandas, with the ids as index.
        """
        _position("entity set", entity, self.fitted_.schema.entities)
        check_choice("std", std)
        check_choice("weak", weak)
        ids = self.fitted_.vocabularies[entity]
        return give(factor_table(self.fitted_, entity, std=std, weak=weak), self._frame, name=entity, ids=ids)

    def biases(self, relation: str, side: Literal["rows", "cols"], *, std: bool = False) -> pd.Series[float]:
        """Means (or deviations) of one side's biases, in the scale of the predictor (Gaussian: of the data).

        Where a project file standardized the columns, each has units of its own and the biases of rows go with all
        of them: both sides are then in standard deviations of the columns.
        """
        f, m, at = self.fitted_, self._relation(relation), check_choice("side", side, ("rows", "cols"))
        check_choice("std", std)
        column = bias_table(f, m, at, std=std)
        if self._frame == "pandas":
            return column
        entity = getattr(f.schema.relations[m], side)
        table: Any = give(column.to_frame(), self._frame, name=entity, ids=f.vocabularies[entity])
        return table  # type: ignore[no-any-return]  # a polars frame, which has no type here

    def coefficients(self, entity: str, *, weak: bool = False) -> Frame:
        """How factors and biases of an entity set depend on its covariates: a line per feature and what it is `of`.

        That is a factor, or the bias of a relation ("bias in ratings", in the scale of the predictor, as `biases` has
        it). `mean` and `std` are of the coefficient, the change that a feature makes to what is expected of an entity:
        numbers, dates and booleans by one standard deviation, levels (`color=red`) against the average entity. Columns
        that were not worth it have zeros. `weak=True` lists the weak factors too, see `structure`.
        """
        fitted = self.fitted_
        _position("entity set", entity, fitted.schema.entities)
        check_choice("weak", weak)
        if entity not in fitted.effects:
            msg = (
                f"The entity set {entity!r} has no covariates: give a table of what is known of it,"
                f" Collection(relations, entities={{{entity!r}: frame}}), before fitting."
            )
            raise UnknownIdError(msg)
        table = effect_table(fitted, entity, weak=weak)
        return give(table.set_index("feature"), self._frame, name="feature") if self._frame == "polars" else table

    def structure(self, *, weak: bool = False) -> Frame:
        """A row per active factor: its activity in every entity set, its role, and the relations it reaches.

        Activity is the share of the factor's second moment in the set that the data determine, in [0, 1], and
        exactly 0 where the factor is switched off. Role: "shared" by all relations, "private" to one, or
        "partial". `weak=True` lists the rest too: factors that cost the bound more than they gain, so that they are
        no part of the structure, but with which predictions are better than without. Their role is "weak".

        Where relations have scales, each may see a factor or not, and `strengths` tells how it does: with dozens of
        relations it is the table to look at. A directed relation has to do with the factors that send in it and with
        their mates that receive.

        A sampled model has a column `P(set)` for every entity set: how probable it is that the set holds the factor.
        Its factors are means over draws that were brought to the axes of one of them.
        """
        check_choice("weak", weak)
        return give(structure_table(self.fitted_, weak=weak), self._frame, name="factor")

    def diagnostics(self) -> Frame:
        """Of a sampled model, a row per relation: draws that were kept, `effective` ones, and `r_hat`.

        Both are of the predictors of 300 random cells; of twenty of them, one is worse than that. `r_hat` is that of
        the log density of all cells if that is larger. Near 1 it says that the halves of all chains agree; above 1.1
        the fit warns. Both are NaN where chains have fewer than 8 draws. Without draws the table is empty.
        """
        names = [relation.name for relation in self.fitted_.schema.relations]
        return give(diagnostic_table(self.fitted_.draws, names), self._frame, name="relation")

    def variance_explained(self, *, weak: bool = False) -> Frame:
        """Relation × factor: the share of each relation's variance (0/1 and counts: deviance) that each explains.

        "bias" is what the biases explain alone, a factor's column what it adds to them by itself, "total" the
        whole model; factors that overlap make the columns sum to more or less than the total. Measured on the
        training cells; where a relation has more than 200,000 (of a sampled model: 8 million over its draws, at least
        10,000), on that many drawn at random, the same in every fit. It is what the expected predictor θ explains, of a
        sampled model the mean of its draws. Columns that were standardized count alike. `weak=True` shows the weak
        factors too, see `structure`.
        """
        check_choice("weak", weak)
        return give(explained_table(self.fitted_, weak=weak), self._frame, name="relation")

    def strengths(self, *, weak: bool = False) -> Frame:
        """Relation × factor: how strongly, and with which sign, each factor acts in each relation; 0 where it does not.

        The deviation of the factor's part of the predictor: the relation's scale times the root mean squares of the
        factor in its two entity sets. Signs tell relations apart that use one factor in opposite ways; without scales
        none is negative. In a directed relation it is what the factor sends to its mate (see `mates`).
        """
        check_choice("weak", weak)
        return give(strength_table(self.fitted_, weak=weak), self._frame, name="relation")

    def noise(self, relation: str, side: Literal["rows", "cols"] | None = None) -> pd.Series[float] | float:
        """Deviation of the noise of a relation, in its own units; `side`: of each of its rows or columns, by id.

        That is what no factor and no bias explains: √(⟨1/τ⟩ ⟨1/ρ_i⟩ ⟨1/σ_j⟩), of a row in a column that is as noisy as
        the relation. Rows differ where the relation has `likelihood=gcmf.likelihoods.Gaussian(noise="both")`.
        """
        if side is not None:
            check_choice("side", side, ("rows", "cols"))
        return noise_table(self.fitted_, self._relation(relation), side)

    def mates(self, *, weak: bool = False) -> Frame:
        """A row per factor, with its mate in directed relations of a set with itself.

        What one entity sends with a factor, the other receives with the factor's mate, which may be the factor itself.
        """
        check_choice("weak", weak)
        return give(mate_table(self.fitted_, weak=weak), self._frame, name="factor")

    @overload
    def predict(
        self, relation: str, rows: pd.Series[Any], cols: pd.Series[Any], *, grid: Literal[False] = False,
        return_std: Literal[False] = False, interval: None = None, unknown: Unknown = "error",
    ) -> pd.Series[float]: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: pd.Series[Any], cols: pd.Series[Any], *, grid: Literal[False] = False,
        return_std: Literal[True], interval: None = None, unknown: Unknown = "error",
    ) -> tuple[pd.Series[float], pd.Series[float]]: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: Ids = None, cols: Ids = None, *, grid: bool = False,
        return_std: Literal[False] = False, interval: None = None, unknown: Unknown = "error",
    ) -> Floats: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: Ids = None, cols: Ids = None, *, grid: bool = False,
        return_std: Literal[True], interval: None = None, unknown: Unknown = "error",
    ) -> tuple[Floats, Floats]: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: pd.Series[Any], cols: pd.Series[Any], *, grid: Literal[False] = False,
        return_std: Literal[False] = False, interval: float, unknown: Unknown = "error",
    ) -> tuple[pd.Series[float], pd.Series[float], pd.Series[float]]: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: Ids = None, cols: Ids = None, *, grid: bool = False,
        return_std: Literal[False] = False, interval: float, unknown: Unknown = "error",
    ) -> tuple[Floats, Floats, Floats]: ...  # fmt: skip

    @overload
    def predict(
        self, relation: str, rows: Ids = None, cols: Ids = None, *, grid: bool = False,
        return_std: Literal[True], interval: float, unknown: Unknown = "error",
    ) -> tuple[Floats, Floats, Floats, Floats]: ...  # fmt: skip

    def predict(  # noqa: PLR0913 - the contract
        self,
        relation: str,
        rows: Ids = None,
        cols: Ids = None,
        *,
        grid: bool = False,
        return_std: bool = False,
        interval: float | None = None,
        unknown: Unknown = "error",
    ) -> Predictions:
        """Predict cells of a relation by id: the mean, and as many of these as are asked for.

        With `return_std=True` also the standard deviation of a new cell; with `interval=0.9` the lower and the upper
        end of what holds a new cell with 90% probability, leaving out 5% on either side. Those of counts are counts,
        which hold at least so much. A 0/1 cell is either 0 or 1: there it is the interval of the probability.

        `rows` and `cols` are paired, one prediction each (a single id is paired with all of the other side);
        with `grid=True`, or where one of them is None (all ids), every row is combined with every column.
        Predictions of paired ids that are columns (pandas or polars Series) are a column of that kind, all others
        are arrays. An id that the model has never heard of is an error, or with `unknown="prior"` predicted from
        the prior.
        """
        check_choice("return_std", return_std)
        check_level(interval)
        m, i, j, whole = self._asked(relation, rows, cols, grid=grid, unknown=unknown)
        predicted = (predict_grid if whole else predict_pairs)(self.fitted_, m, i, j, level=interval)._asdict()
        wanted = ["mean", *["std"] * bool(return_std), *["lower", "upper"] * (interval is not None)]
        if not whole:
            names = {part: relation if part == "mean" else f"{relation}_{part}" for part in wanted}
            predicted = {part: like(predicted[part], rows, cols, name=names[part]) for part in wanted}
        return tuple(predicted[part] for part in wanted) if len(wanted) > 1 else predicted["mean"]

    def sample(  # noqa: PLR0913 - what is drawn, how often, and of whom
        self,
        relation: str,
        rows: Ids = None,
        cols: Ids = None,
        n: int = 100,
        *,
        of: Literal["cells", "predictor"] = "cells",
        grid: bool = False,
        random_state: RandomState = None,
        unknown: Unknown = "error",
    ) -> Floats:
        """Draw cells of a relation `n` times from what is known of them: (n, cells), or (n, rows, cols) of a grid.

        `of="predictor"` draws the linear predictor θ and no noise: for Gaussian cells in their units, for 0/1 and
        counts as it enters the likelihood. Ids are taken as `predict` takes them. Cells are drawn together: in each
        draw an entity has one vector, whatever cells it is in. (Ids never heard of are drawn anew for every cell.)
        """
        check_choice("of", of, ("cells", "predictor"))
        check_integer("n", n, 1)
        m, i, j, whole = self._asked(relation, rows, cols, grid=grid, unknown=unknown)
        shape, fitted = (len(i), len(j)), self.fitted_
        if whole:
            i, j = np.repeat(i, len(j)), np.tile(j, len(i))
        rng = as_generator(random_state)
        if of == "cells":
            drawn = sample_cells(fitted, m, (i, j), n, rng)
        else:
            center, scale = fitted.measure(m, j)
            drawn = sample_theta(fitted, m, (i, j), n, rng) * scale + center
        return drawn.reshape(n, *shape) if whole else drawn

    def _asked(
        self, relation: str, rows: Ids, cols: Ids, *, grid: bool, unknown: Unknown
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64], bool]:
        """Number of the relation, positions of rows and columns, and whether every one meets every other."""
        check_choice("unknown", unknown, ("error", "prior"))
        check_choice("grid", grid)
        m = self._relation(relation)
        ends = self.fitted_.schema.relations[m]
        i, j = self._index(ends.rows, rows, unknown), self._index(ends.cols, cols, unknown)
        whole = grid or rows is None or cols is None
        return (m, i, j, True) if whole else (m, *pair(i, j), False)

    def score(self, data: Data, y: None = None, *, unknown: Unknown = "error") -> Frame:
        """Compare predictions with the cells of a collection, per relation: rmse, mae, log_likelihood, n and more.

        Relations are matched by name; they must join the same entity sets as in the model, either way round, and have
        the same likelihood. `log_likelihood` is the mean log predictive density (probability) per cell. `coverage_50`,
        `coverage_80` and `coverage_95` are the shares of the cells within intervals that should hold 50, 80 and 95% of
        them, and `width_95` is how wide the last are on average (0/1: those of the probability). 0/1 relations have
        `auc` and `average_precision` too, and `calibration_error`: how far, on average, the share of ones is from the
        probability predicted, in ten bins of equally many cells.

        Everything is in the units that the cells came in, also of columns that a project file standardized (age in
        years, height in centimeters): those in large numbers weigh most in rmse, mae and width_95, all weigh alike in
        the others.
        """
        del y
        given = Collection.of(data, caller=f"{type(self).__name__}.score")
        return give(self._score_table(given, unknown=unknown), self._frame, name="relation")

    def _score_table(self, data: Collection, *, unknown: Unknown = "error") -> pd.DataFrame:
        """`score`, always in pandas."""
        check_choice("unknown", unknown, ("error", "prior"))
        numbers = {name: self._relation(name) for name in data.relations}
        turned = {name: is_turned(self.schema_.relations[m], data.relations[name]) for name, m in numbers.items()}
        rows = {}
        for name, m in numbers.items():
            cells = self._cells(data, data.relations[name], unknown)
            parts = ((j, i, x) if turned[name] else (i, j, x) for i, j, x in cells)
            rows[name] = score_cells(self.fitted_, m, parts)
        table = pd.DataFrame.from_dict({name: row._asdict() for name, row in rows.items()}, orient="index")
        return table if table["calibration_error"].notna().any() else table.drop(columns=list(OF_BINARY))

    def _cells(
        self, data: Collection, bound: BoundRelation, unknown: Unknown
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
        i = self._index(bound.rows, data.entities[bound.rows].ids, "prior")
        j = self._index(bound.cols, data.entities[bound.cols].ids, "prior")
        for part in bound.chunks(100_000):
            if unknown == "error":
                for entity, known, used in ((bound.rows, i, part.i), (bound.cols, j, part.j)):
                    missing = used[known[used] < 0]
                    if len(missing):
                        self._index(entity, data.entities[entity].ids[np.unique(missing)], "error")
            yield i[part.i], j[part.j], part.x

    # --- store -------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The whole model as plain numbers, strings, lists and NumPy arrays."""
        return storage.to_dict(self)

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `gcmf.load` reads without the training data."""
        storage.save(self, path)

    def _stored(self) -> dict[str, Any]:
        known = describe_fitted(self.fitted_)
        if self._n_settled is not None:
            known["n_settled"] = self._n_settled
        return {"frame": self._frame, **known, **({} if self._made_of is None else {"made_of": self._made_of})}

    def _restore(self, document: Mapping[str, Any], status: Status) -> None:
        self._frame = document["frame"]
        self._settle(read_fitted(document), document["trace"], status, document.get("n_settled"))
        self._made_of = document.get("made_of")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        head = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "_fitted"):
            return head
        fitted = self._fitted
        role, _ = roles(fitted.structure.seen[:, : fitted.n_factors])
        counts = ", ".join(f"{role.count(r)} {r}" for r in ("shared", "partial", "private") if r in role) or "none"
        relations = [
            f"{r}, {total:.1%} explained" + (f", {fitted.drawn[r.name]}" if r.name in fitted.drawn else "")
            for r, total in zip(fitted.schema.relations, fitted.explained.total, strict=True)
        ]
        factors, sweeps = counted(fitted.n_factors, "active factor"), counted(self.n_iter_, "sweep")
        fit_line = f"{sweeps}, {fitted.objective} {self.elbo_:,.1f}, {self.status_}"
        return "\n  ".join([head, f"{factors}: {counts}", fit_line, *few(relations, "relations")])

    def _repr_html_(self) -> str:
        """What notebooks show: the parameters before a fit, as scikit-learn has them, and then what was found."""
        if not hasattr(self, "_fitted"):
            return str(estimator_html_repr(self))
        from gcmf.report.words import summary, warnings_of  # noqa: PLC0415 - only notebooks ask

        columns = ("relation", "joins", "kind", "explained")
        lines = [
            (r.name, f"{r.rows} {TIMES} {r.cols}", r.kind, f"{total:.1%}")
            for r, total in zip(self.schema_.relations, self._fitted.explained.total, strict=True)
        ]
        return shown_table(type(self).__name__, columns, lines, [*summary(self), *warnings_of(self)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The same for Jupyter, which asks this first; `sklearn.set_config(display="text")` wants no HTML."""
        text = {"text/plain": repr(self)}
        return {**text, "text/html": self._repr_html_()} if get_config()["display"] == "diagram" else text

    # --- names to numbers --------------------------------------------------------------------------------------

    def _relation(self, name: str) -> int:
        return _position("relation", name, [r.name for r in self.fitted_.schema.relations])

    def _index(self, entity: str, ids: Ids, unknown: Unknown) -> NDArray[np.int64]:
        return locate(self.fitted_.vocabularies[entity], entity, ids, unknown=unknown)


def _position(kind: str, name: str, names: Sequence[str]) -> int:
    if name not in names:
        known = ", ".join(map(repr, names))
        msg = f"There is no {kind} {name!r}; the model has {known}.{did_you_mean(name, names)}"
        raise UnknownIdError(msg)
    return names.index(name)
