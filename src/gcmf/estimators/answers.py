"""What a fitted `GCMF` is asked beyond its tables and predictions: rankings, neighbors, reasons, new entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gcmf.estimators.nearest import NearestItems
from gcmf.estimators.newcomers import NewEntities, folded
from gcmf.estimators.rankings import By, To, neighbors, recommended, seen_pairs
from gcmf.estimators.reasons import explained
from gcmf.estimators.tables import give_plain
from gcmf.estimators.updates import updated
from gcmf.options import check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gcmf.data.id_kind import Ids
    from gcmf.estimators.tables import Frame
    from gcmf.options import RandomState


class Answers:
    """Questions to a fitted model that are answered with a table of ids."""

    def recommend(  # noqa: PLR0913 - the contract
        self: Any,
        relation: str,
        ids: Ids = None,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: Ids = None,
        by: By = "mean",
        to: To = "rows",
        seen: Any = None,
        random_state: RandomState = None,
    ) -> Frame:
        """Return the `n` best columns of a relation for each of its rows: a frame with id, rank, item, score and std.

        Parameters
        ----------
        relation : str
            The relation whose cells are to be high.
        ids : list of ids, optional
            Whom to recommend to; all by default.
        n : int
            How many items at most; fewer where fewer are left.
        exclude_seen : bool
            Leave out pairs that were observed (where blanks are zeros: that are not zero). The model knows them unless
            they were too many to keep (`GCMF(keep=)`), or they are in `seen`, a collection.
        candidates : list of ids, optional
            What may be recommended; everything by default.
        by : {"mean", "lower", "upper", "sample"}
            What items are ranked by, which is their score. "mean": the predicted mean, as `predict` has it. "lower" and
            "upper": the mean that a cell would have if θ were where it lies below (above) with a chance of one in ten:
            its mean −/+ 1.28 deviations, or of a sampled model these quantiles of its draws. "lower" is careful with
            items that are little known, "upper" is curious about them. "sample": one draw of all factors and biases
            from the posterior (Thompson sampling).
        to : {"rows", "cols"}
            "cols" recommends rows to columns: the users to whom a movie may appeal.
        seen : Collection, optional
            What was seen, in place of what the model was fitted to.
        random_state : int, numpy.random.Generator or None
            Of by="sample": the same seed and question give the same answer.

        Returns
        -------
        DataFrame
            `score` is in the units of the cells, `std` is the predictive deviation of the cell, as `predict` has it.
            Where the model has no factor in the relation, it warns that everybody gets the same list.
        """
        check_choice("exclude_seen", exclude_seen)
        m = self._relation(relation)
        known = seen_pairs(self, m, seen) if exclude_seen else None
        return recommended(self, m, ids, n, candidates=candidates, by=by, to=to, seen=known, random_state=random_state)

    def similar(self: Any, entity: str, ids: Ids = None, n: int = 10, *, relation: str | None = None) -> Frame:
        """Return the `n` entities of a set that are most like each id: a frame with id, rank, item and score.

        The score, at most 1, compares what two entities do to predictions: the cosine of their factors in the metric
        in which the squared distance of two entities is how much their cells are expected to differ, over all partners
        in all relations of the set, or in one `relation`. Biases, which say how high all cells of an entity are, do not
        count. The norms are those of the posterior, so that an entity of which little is known is like nobody. Where
        the model has no factor, this is an error: nothing says who is alike.
        """
        self.schema_.entity_index(entity)
        m = None if relation is None else self._relation(relation)
        return neighbors(self, self.fitted_, entity, ids, n, m=m)

    def to_index(self: Any, relation: str) -> NearestItems:
        """Return the columns of a relation in an index of approximate nearest neighbors (extra `ann`: usearch).

        For millions of columns, where scoring all of them takes too long: `search` finds nearly all of what `recommend`
        with exclude_seen=False does (of a sampled model by its mean factors). Its `index` can be saved and served
        without gcmf.
        """
        return NearestItems(self, self._relation(relation))

    def explain(self: Any, relation: str, row: Any, col: Any, *, data: Any = None) -> Frame:
        """Return why a cell is predicted as it is: a frame of parts that add up to the prediction.

        Parameters
        ----------
        relation, row, col
            The cell.
        data : Collection, optional
            What the model was fitted to, which it does not keep: then the cells are told that the prediction rests on.

        Returns
        -------
        DataFrame
            The lines of each value of `by` add up to the prediction of a Gaussian cell, in its units, and of other
            cells to their linear predictor θ. by="factors": the mean of the relation, the biases of the two entities,
            and each factor. by="row cells": what the row owes to each cell that it was known from (`relation`, `item`
            and the value of the `cell`), to the prior (and covariates), and to its other biases where it has no cell in
            this relation; "rest" is what a fit that has not quite settled leaves. by="column cells": the same for the
            column. Sum `contribution` by `relation` to see which relations carry the prediction.
        """
        return give_plain(explained(self, self._relation(relation), row, col, data), self._frame)

    def fold_in(self: Any, entity: str, cells: Mapping[str, Any] | None = None, covariates: Any = None) -> NewEntities:
        """Return new entities of a set: their factors and biases, with everything else of the model held fixed.

        A sampled model draws them beside each of its draws; the same cells give the same answer.

        Parameters
        ----------
        entity : str
            Their entity set.
        cells : mapping of str to cells, optional
            By relation, any of those that the set takes part in: {"ratings": cells, "profile": more}. Cells are a long
            frame, with the columns of the table that the model was fitted to or with columns named as the two sets and
            one of values; triplets (new ids, ids of the other set, values); a wide frame with the new ids in its index
            and a column for each entity of the other set that it has cells with; an array or a sparse matrix, whose
            columns are the entities of the other set in the order of the model and whose rows have the ids 0, 1, ...;
            or a `Relation`. Ids of the other set must be of the kind that they had in the fit: '1' is not 1. In
            relations that were fitted with `blanks="zero"`, what is not listed is a zero. Of a set related to itself,
            the new ones are those that the model does not know.
        covariates : data frame, or (ids, sparse matrix), optional
            What is known of them, in the columns that the model was fitted with. Whoever has no cells is expected from
            these alone; who is not even here is expected to be anybody of the set.

        Examples
        --------
        >>> import gcmf, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(8, 1)) @ np.ones((1, 5)) + 0.1 * np.eye(8, 5)
        >>> model = gcmf.GCMF(1, random_state=0).fit({("user", "movie", "ratings"): x})
        >>> new = model.fold_in("user", {"ratings": (["ann", "ann"], [0, 1], [1.5, 1.6])})
        >>> new.predict("ratings", "ann", [2, 3]).round(1)
        array([1.5, 1.5])
        """
        return folded(self, entity, cells, covariates)

    def update(self: Any, cells: Any) -> Any:
        """Take in more cells, of entities that the model knows and of new ones: change this model, and return it.

        The model is changed in place, as by `fit`; `copy.copy(model).update(cells)` leaves it as it is.

        What is known of an entity is the prior that its new cells meet; those without new cells, precisions, noise and
        scales stay as they are, and five sweeps go over the new cells alone. Where many cells have come, or old ones
        have changed, go on with all of them: `fit(data, start=model)`.

        A sampled model takes in entities that it does not know, by cells with those that it knows, and draws them
        beside each of its draws, as `fold_in` does; nothing else moves. Other cells are refused.

        Parameters
        ----------
        cells : mapping of str to cells, Relation, or list of relations
            By relation, as in `fold_in`, where rows of arrays and triplets are the relation's own rows. A cell that the
            model was fitted to is refused.
        """
        self._fitted = updated(self, cells)
        self._made_of: dict[str, str] | None = None  # of more than what was fitted
        return self

    def report(self: Any, path: str | Path, test: Any = None) -> None:
        """Write what the model found to one HTML file, which opens from disk and can be sent to anybody.

        It tells in words and pictures what was fitted, the structure, what is explained, the top entities of every
        factor, how the fit went and how to repeat it; entities can be searched for. With `test`, a collection (or
        what `fit` takes) of cells that were not fitted, it has errors, coverage and calibration too. The file holds
        ids and factors of entities: who may not see those should not get it.
        """
        from gcmf.report.page import write_report  # noqa: PLC0415 - only who asks pays for it

        write_report(self, path, test)
