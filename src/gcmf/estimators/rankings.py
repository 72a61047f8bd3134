"""Rankings by name: what to recommend to whom, and who is like whom."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gcmf.data.collection import Collection
from gcmf.data.pairs import Pairs
from gcmf.data.vocabulary import and_more, show_id
from gcmf.engines.threads import available_threads
from gcmf.errors import DataError, ModelWarning, OptionError
from gcmf.estimators.asking import check_kinds, is_turned, known_at
from gcmf.estimators.tables import Frame, tidy
from gcmf.model.ranking import Question, loadings, metric, recommend, similar
from gcmf.options import as_generator, check_choice, check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.id_kind import Ids
    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted
    from gcmf.options import RandomState

    Indices = NDArray[np.int64]

By = Literal["mean", "lower", "upper", "sample"]
To = Literal["rows", "cols"]


def recommended(  # noqa: PLR0913 - what may be asked
    model: GCMF,
    m: int,
    ids: Ids,
    n: int,
    *,
    candidates: Ids,
    by: By,
    to: To,
    seen: Pairs | None,
    random_state: RandomState,
) -> Frame:
    """The n best candidates for each id: a frame with id, rank, item, score and std."""
    check_integer("n", n, 1)
    check_choice("by", by, ("mean", "lower", "upper", "sample"))
    to_rows, schema, fitted = check_choice("to", to, ("rows", "cols")) == 0, model.schema_.relations[m], model.fitted_
    asked, other = (schema.rows, schema.cols) if to_rows else (schema.cols, schema.rows)
    who = known_at(fitted.vocabularies[asked], asked, ids)
    what = np.unique(known_at(fitted.vocabularies[other], other, candidates))
    question = Question(m, who, what, n, by, to_rows=to_rows)
    warn_without_factors(fitted, m, stacklevel=4)
    found = recommend(fitted, question, seen, as_generator(random_state), n_threads_of(model))
    columns = {
        "id": (fitted.vocabularies[asked], who[found.of]), "rank": found.rank,
        "item": (fitted.vocabularies[other], found.item), "score": found.score, "std": found.std,
    }  # fmt: skip
    return tidy(columns, model._frame)


def seen_pairs(model: GCMF, m: int, seen: object) -> Pairs:
    """Which cells of relation m were observed: as a collection says, or as the model has kept them."""
    fitted, schema = model.fitted_, model.schema_.relations[m]
    if seen is None:
        if fitted.pairs is None:
            msg = (
                f"The model does not know which cells of {schema.name!r} it was fitted to, so that what was seen cannot"
                " be left out: they were too many, it was not to keep them, or its file is older. Give the collection,"
                " seen=data; or fit with GCMF(keep='pairs'); or ask with exclude_seen=False."
            )
            raise OptionError(msg)
        return fitted.pairs[m]
    data = Collection.of(seen, caller="seen=")
    if schema.name not in data.relations:
        msg = f"seen= has no relation {schema.name!r}; it has {', '.join(map(repr, data.relations))}."
        raise DataError(msg)
    bound = data.relations[schema.name]
    pairs = Pairs.of(bound.cells)
    pairs = pairs.transposed() if is_turned(schema, bound) else pairs
    check_kinds(fitted, data)
    rows, cols = (fitted.vocabularies[name].index(data.entities[name].ids) for name in (schema.rows, schema.cols))
    i, j = np.divmod(pairs.places, max(pairs.shape[1], 1))
    i, j = rows[i], cols[j]
    return pairs_at(fitted, m, i, j)


def pairs_at(fitted: Fitted, m: int, i: Indices, j: Indices) -> Pairs:
    """Pairs of rows and columns of a model, in any order; those that it does not know (−1) are passed over."""
    shape = len(fitted.mean[fitted.ends[m][0]]), len(fitted.mean[fitted.ends[m][1]])
    known = (i >= 0) & (j >= 0)
    return Pairs.at(i[known].astype(np.int64) * shape[1] + j[known], shape)


def neighbors(  # noqa: PLR0913 - what may be asked
    model: GCMF, base: Fitted, entity: str, ids: Ids, n: int, *, m: int | None
) -> Frame:
    """The n entities of `base` that are most like each id of the model: a frame with id, rank, item and score."""
    check_integer("n", n, 1)
    fitted, e = model.fitted_, model.schema_.entity_index(entity)
    ours, theirs = fitted.vocabularies[entity], base.vocabularies[entity]
    asked = known_at(ours, entity, ids)
    M = metric(base, e, m)
    of = loadings(base, e, M)
    own = of if base is fitted else loadings(fitted, e, M)
    _check_alike(fitted, (entity, m), of, asked[~own[asked].any(axis=1)])
    found = similar(own[asked], of, theirs.index(ours.ids.take(asked)), n, n_threads_of(model))
    columns: dict[str, Any] = {
        "id": (ours, asked[found.of]), "rank": found.rank, "item": (theirs, found.item), "score": found.score,
    }  # fmt: skip
    return tidy(columns, model._frame)


def warn_without_factors(fitted: Fitted, m: int, *, stacklevel: int) -> None:
    """Warn where predictions of relation m are made by biases alone, so that the same is best for everybody."""
    (rows, cols), scales = fitted.ends[m], fitted.scales
    if not (fitted.on[rows] & fitted.on[cols] if scales is None else scales.on[m]).any():
        name = fitted.schema.relations[m].name
        msg = (
            f"The model has no factor in {name!r}: by its biases alone, everybody is recommended the same, what has the"
            " highest cells on average. For more than that, fit to more cells, or to other relations of the same"
            " entities too."
        )
        warnings.warn(msg, ModelWarning, stacklevel=stacklevel)


def _check_alike(fitted: Fitted, where: tuple[str, int | None], of: NDArray[np.float64], unknown: Indices) -> None:
    """Refuse to say who is alike where no factor tells; warn of those of whom nothing is known."""
    entity, m = where
    if not of.any():
        within = "" if m is None else f" in relation {fitted.schema.relations[m].name!r}"
        msg = (
            f"The model has no factor of {entity}{within}, by which some would be more alike than others; biases say"
            " nothing of that. Fit to more cells, or to other relations of the same entities too."
        )
        raise DataError(msg)
    if len(unknown):
        first = show_id(fitted.vocabularies[entity].ids[int(unknown[0])])
        msg = (
            f"Nothing is known of {entity} {first}{and_more(len(unknown) - 1)}: all scores are 0, and their order says"
            " nothing. Ask for others, or fit to cells of theirs."
        )
        warnings.warn(msg, ModelWarning, stacklevel=4)


def n_threads_of(model: GCMF) -> int:
    """Threads that answers may take: as many as a fit."""
    return model.n_threads or available_threads()
