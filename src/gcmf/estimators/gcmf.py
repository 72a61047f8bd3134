"""GCMF: fit a collection, then ask."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from gcmf.data.collection import Collection
from gcmf.data.vocabulary import as_index, show_id
from gcmf.errors import ConvergenceWarning, OptionError, UnknownIdError, did_you_mean
from gcmf.estimators.progress import watch
from gcmf.estimators.tables import Frame, bias_table, explained_table, factor_table, give, like, structure_table
from gcmf.fit import Status, fit
from gcmf.model.fitted import Fitted, summarize
from gcmf.model.predict import predict_grid, predict_pairs, score_cells
from gcmf.model.structure import roles
from gcmf.options import BiasSides, FitOptions, Inference, Priors, Sharing, Solver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from gcmf.data.schema import Schema
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.fit import StepInfo

Unknown = Literal["error", "prior"]


class GCMF(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Group-sparse collective matrix factorization.

    Every cell of every relation is modelled by θ = u_row · u_col + b_row + b_col, with one vector u per entity,
    shared by all relations the entity takes part in. Which factors are shared by all relations, by some, or
    private to one is found by automatic relevance determination; nothing needs tuning.

    Parameters
    ----------
    n_factors
        Factors to start from. Superfluous ones are switched off, so too many only costs time.
    sharing
        "group" lets each entity set choose its factors (gCMF); "common" makes all factors shared (CMF).
    bias
        Row and column biases: True, False, or by relation name, e.g. {"ratings": True, "genres": "cols"}.
    inference
        "vb" for variational Bayes, "map" for a point estimate (needs proper `priors`).
    priors
        `Priors(...)` of the precisions; vague by default.
    max_iter, tol
        Sweep at most `max_iter` times, until a sweep raises the bound by less than `tol` of its size.
    n_init
        Random starts; the one with the best bound is kept.
    random_state
        Seed (int), numpy Generator, or None. The same seed gives the same bits for any number of threads.
    dtype
        "float32" or "float64", the precision of the factors while fitting.
    device
        "auto", "cpu", or "reference" (plain NumPy, slow, for checking).
    n_threads
        At most so many threads; None takes every core this process may use.
    progress
        True, False, or "auto": a progress bar if a person is watching and the fit takes more than two seconds.
    callbacks
        Functions called with a `StepInfo` after every sweep; one that returns True stops the fit.
    checkpoint
        A path where the model of the sweep is saved about once a minute while fitting.
    solver, damping
        "exact", or "newton" for the paper's damped parallel step, kept for comparison.

    Attributes
    ----------
    n_iter_, status_, elbo_, elbo_trace_, n_factors_active_
        How the fit went; `status_` says in words what to do if it did not converge.
    """

    _frame = "pandas"
    """The kind of frame that answers are given in."""

    def __init__(  # noqa: PLR0913 - one name for each thing that users differ in
        self,
        n_factors: int = 20,
        *,
        sharing: Sharing = "group",
        bias: bool | Mapping[str, BiasSides] = True,
        inference: Inference = "vb",
        priors: Priors | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_init: int = 1,
        random_state: int | np.random.Generator | None = None,
        dtype: str = "float32",
        device: str = "auto",
        n_threads: int | None = None,
        progress: bool | Literal["auto"] = "auto",
        callbacks: Sequence[Callable[[StepInfo], object]] = (),
        checkpoint: str | Path | None = None,
        solver: Solver = "exact",
        damping: float = 0.3,
    ) -> None:
        self.n_factors = n_factors
        self.sharing = sharing
        self.bias = bias
        self.inference = inference
        self.priors = priors
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.dtype = dtype
        self.device = device
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.solver = solver
        self.damping = damping

    # --- fit ---------------------------------------------------------------------------------------------------

    def fit(self, data: Collection | Mapping[tuple[str, ...], Any], y: None = None) -> GCMF:
        """Fit a Collection, or a mapping {("user", "movie"): X, ("user", "trait", "name"): Y} of arrays."""
        del y
        return self._fit(data, self._options())

    def _options(self, **more: Any) -> FitOptions:  # noqa: ANN401 - checked by FitOptions
        names = ("n_factors", "sharing", "bias", "inference", "max_iter", "tol", "n_init", "dtype", "device",
                 "n_threads", "solver", "damping")  # fmt: skip
        chosen = {name: getattr(self, name) for name in names} | more
        return FitOptions(**chosen, priors=self.priors if self.priors is not None else Priors())

    def _fit(self, data: Collection | Mapping[tuple[str, ...], Any], options: FitOptions) -> GCMF:
        if not isinstance(data, Collection):
            data = Collection.from_mapping(data)
        self._frame = data.frame
        rng = np.random.default_rng(self.random_state)
        with watch(self, data, options) as callbacks:
            result = fit(data, options, rng, callbacks)
        self._settle(summarize(result.spec, result.posterior, data), result.trace, result.status)
        if result.status in (Status.MAX_ITER, Status.NONFINITE, Status.ELBO_DECREASED):
            warnings.warn(f"{type(self).__name__}: {result.status}.", ConvergenceWarning, stacklevel=3)
        return self

    def _settle(self, fitted: Fitted, trace: Sequence[float], status: Status) -> None:
        self._fitted = fitted
        self.status_ = status
        self.elbo_trace_ = np.array(trace)
        self.elbo_ = float(trace[-1]) if len(trace) else float("nan")
        self.n_iter_ = len(trace)
        self.n_factors_active_ = fitted.n_factors

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    @property
    def fitted_(self) -> Fitted:
        """The fitted model behind the answers."""
        if not hasattr(self, "_fitted"):
            msg = f"This {type(self).__name__} is not fitted yet: call fit(data) first."
            raise NotFittedError(msg)
        return self._fitted

    @property
    def schema_(self) -> Schema:
        """Entity sets and relations of the fitted collection."""
        return self.fitted_.schema

    # --- read --------------------------------------------------------------------------------------------------

    def factors(self, entity: str, *, std: bool = False) -> Frame:
        """Posterior means (or with `std=True` standard deviations) of the factors of one entity set, ids × factors.

        This and every other table is of polars if the collection was made of polars frames, with the ids as first
        column, and else of pandas, with the ids as index.
        """
        self._entity(entity)
        ids = self.fitted_.vocabularies[entity]
        return give(factor_table(self.fitted_, entity, std=std), self._frame, name=entity, ids=ids)

    def biases(self, relation: str, side: Literal["rows", "cols"], *, std: bool = False) -> Frame:
        """Means (or deviations) of one side's biases, in the scale of the predictor (Gaussian: of the data).

        Where a project file standardized the columns, each has units of its own and the biases of rows go with all
        of them: both sides are then in standard deviations of the columns.
        """
        f, m, at = self.fitted_, self._relation(relation), _one_of("side", side, ("rows", "cols"))
        column = bias_table(f, m, at, std=std)
        if self._frame == "pandas":
            return column
        entity = getattr(f.schema.relations[m], side)
        return give(column.to_frame(), self._frame, name=entity, ids=f.vocabularies[entity])

    def structure(self) -> Frame:
        """A row per active factor: its activity in every entity set, its role, and the relations it reaches.

        Activity is the share of the factor's second moment in the set that the data determine, in [0, 1], and
        exactly 0 where the factor is switched off. Role: "shared" by all relations, "private" to one, or
        "partial".
        """
        return give(structure_table(self.fitted_), self._frame, name="factor")

    def variance_explained(self) -> Frame:
        """Relation × factor: the share of each relation's variance (0/1 and counts: deviance) that each explains.

        "bias" is what the biases explain alone, a factor's column what it adds to them by itself, "total" the
        whole model; factors that overlap make the columns sum to more or less than the total. Measured on the
        training cells (on an even sample of a million of them where there are more). Columns that were standardized
        count alike.
        """
        return give(explained_table(self.fitted_), self._frame, name="relation")

    def predict(  # noqa: PLR0913 - the contract
        self,
        relation: str,
        rows: Any = None,  # noqa: ANN401 - ids of any kind
        cols: Any = None,  # noqa: ANN401
        *,
        grid: bool = False,
        return_std: bool = False,
        unknown: Unknown = "error",
    ) -> Any:  # noqa: ANN401 - an array or a column, or two of them
        """Predict cells of a relation by id: mean (and with `return_std` the predictive standard deviation).

        `rows` and `cols` are paired, one prediction each (a single id is paired with all of the other side);
        with `grid=True`, or where one of them is None (all ids), every row is combined with every column.
        Predictions of paired ids that are columns (pandas or polars Series) are a column of that kind, all others
        are arrays. An id that the model has never heard of is an error, or with `unknown="prior"` predicted from
        the prior.
        """
        _one_of("unknown", unknown, ("error", "prior"))
        f, m = self.fitted_, self._relation(relation)
        ends = f.schema.relations[m]
        i, j = self._index(ends.rows, rows, unknown), self._index(ends.cols, cols, unknown)
        whole = grid or rows is None or cols is None
        answer = tuple(predict_grid(f, m, i, j) if whole else predict_pairs(f, m, *_pair(i, j)))
        if not whole:
            names = (relation, f"{relation}_std")
            answer = tuple(like(part, rows, cols, name=name) for part, name in zip(answer, names, strict=True))
        return answer if return_std else answer[0]

    def score(self, data: Collection, y: None = None, *, unknown: Unknown = "error") -> Frame:
        """Compare predictions with the cells of a collection, per relation: rmse, mae, log_likelihood, n, auc.

        `log_likelihood` is the mean log predictive density (probability) per cell; `auc` is for 0/1 relations.
        Everything is in the units that the cells came in, also of columns that a project file standardized (age in
        years, height in centimeters): those in large numbers weigh most in rmse and mae, all weigh alike in
        log_likelihood.
        """
        del y
        return give(self._score_table(data, unknown=unknown), self._frame, name="relation")

    def _score_table(self, data: Collection, *, unknown: Unknown = "error") -> pd.DataFrame:
        """`score`, always in pandas."""
        _one_of("unknown", unknown, ("error", "prior"))
        rows = {}
        for name, bound in data.relations.items():
            rows[name] = score_cells(self.fitted_, self._relation(name), self._cells(data, bound, unknown))
        table = pd.DataFrame.from_dict({name: row._asdict() for name, row in rows.items()}, orient="index")
        return table if table["auc"].notna().any() else table.drop(columns="auc")

    def _cells(self, data: Collection, bound: Any, unknown: Unknown) -> Iterator[tuple[Any, Any, Any]]:  # noqa: ANN401
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
        from gcmf.storage import to_dict  # noqa: PLC0415 - storage stands beside the estimators

        return to_dict(self)

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `gcmf.load` reads without the training data."""
        from gcmf.storage import save  # noqa: PLC0415

        save(self, path)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        head = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "_fitted"):
            return head
        f = self._fitted
        role, _ = roles(f.ends, f.on)
        counts = ", ".join(f"{role.count(r)} {r}" for r in ("shared", "partial", "private") if r in role) or "none"
        lines = [head, f"  {f.n_factors} active factors: {counts}",
                 f"  {self.n_iter_} sweeps, ELBO {self.elbo_:,.1f}, {self.status_}"]  # fmt: skip
        for r, total in zip(f.schema.relations, f.explained.total, strict=True):
            lines.append(f"  {r.name}: {r.rows} × {r.cols} ({r.likelihood}), {total:.1%} explained")
        return "\n".join(lines)

    # --- names to numbers --------------------------------------------------------------------------------------

    def _relation(self, name: str) -> int:
        names = [r.name for r in self.fitted_.schema.relations]
        if name not in names:
            known = ", ".join(map(repr, names))
            msg = f"There is no relation {name!r}; the model has {known}.{did_you_mean(name, names)}"
            raise UnknownIdError(msg)
        return names.index(name)

    def _entity(self, name: str) -> int:
        names = self.fitted_.schema.entities
        if name not in names:
            known = ", ".join(map(repr, names))
            msg = f"There is no entity set {name!r}; the model has {known}.{did_you_mean(name, names)}"
            raise UnknownIdError(msg)
        return names.index(name)

    def _index(self, entity: str, ids: Any, unknown: Unknown) -> NDArray[np.int64]:  # noqa: ANN401
        vocabulary: Vocabulary = self.fitted_.vocabularies[entity]
        if ids is None:
            return np.arange(len(vocabulary))
        ids = as_index(_listed(ids))  # flat: a column with an index of its own has no positions
        index = vocabulary.index(ids)
        if unknown == "error" and (index < 0).any():
            strange = [ids[n] for n in np.flatnonzero(index < 0)[:3]]
            more = int((index < 0).sum()) - len(strange)
            names = ", ".join(map(show_id, strange)) + (f" and {more} more" if more else "")
            msg = (f"The model has never seen {entity} {names}. Give unknown='prior' to predict new ids from the "
                   f"prior, or declare them when building the collection: entities={{{entity!r}: ids}}.")  # fmt: skip
            raise UnknownIdError(msg)
        return index


def _listed(ids: Any) -> Any:  # noqa: ANN401
    """A single id becomes a list of one; strings and tuples are ids, not lists of them."""
    if isinstance(ids, (str, bytes, tuple)) or not hasattr(ids, "__len__"):
        return [ids]
    return ids


def _pair(i: NDArray[np.int64], j: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if len(i) != len(j) and 1 not in (len(i), len(j)):
        msg = (
            f"rows and cols are paired, but there are {len(i)} rows and {len(j)} columns. Use grid=True for all pairs."
        )
        raise OptionError(msg)
    pair = np.broadcast_arrays(i, j)
    return pair[0], pair[1]


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> int:
    if value not in allowed:
        msg = f"The '{name}' parameter must be one of {', '.join(map(repr, allowed))}. Got {value!r} instead."
        raise OptionError(msg)
    return allowed.index(value)
