"""`GCMF`: its schema, ids and fitted arrays as plain values, and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.checks import schema_faults
from gcmf.data.covariates import Feature
from gcmf.data.id_kind import IdKind
from gcmf.data.pairs import Pairs
from gcmf.data.schema import Columns, RelationSchema, Schema
from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.data.zeros import Drawn
from gcmf.errors import GcmfError, StorageError
from gcmf.likelihoods import ParameterPrior, known
from gcmf.model.draws import Draws, Origin
from gcmf.model.explained import Explained
from gcmf.model.fitted import Effects, Fitted, FittedScales, RowTerms
from gcmf.model.noise import RowNoise
from gcmf.storage.ids import decode
from gcmf.storage.layout import SCHEMA, MalformedError, Matcher, refuse, refuse_faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcmf.likelihoods import Likelihood

#: Fields of `Fitted` that are more than arrays; each has its own place in the document.
_OWN_PLACE = (
    "schema",
    "vocabularies",
    "likelihoods",
    "units",
    "explained",
    "drawn",
    "scales",
    "row_noise",
    "effects",
    "terms",
    "pairs",
    "draws",
)
#: Fields of `Draws` that other parts of the document hold.
_KNOWN_OF_DRAWS = ("offset", "ends", "mates", "origin")
_INTEGERS = ("Int8", "Int16", "Int32", "Int128", "UInt8", "UInt16", "UInt32", "UInt64")


# --- out ----------------------------------------------------------------------------------------------------


def describe_fitted(fitted: Fitted) -> dict[str, Any]:
    """Return a fitted model as plain values and arrays; only the ids are still pandas indexes."""
    return {
        "relations": [
            {
                **{key: value for key, value in asdict(relation).items() if value is not None and key != "columns"},
                **_write_columns(relation.columns),
                "likelihood": _write_likelihood(likelihood),
                **_write_units(units),
                **_write_drawn(fitted.drawn.get(relation.name)),
            }
            for relation, likelihood, units in zip(
                fitted.schema.relations, fitted.likelihoods, fitted.units, strict=True
            )
        ],
        "entities": [
            {
                "name": name,
                "ids": entity.ids,
                "positional": entity.positional,
                **_write_kind(entity.kind),
                **_write_effects(fitted.effects.get(name)),
            }
            for name, entity in ((name, fitted.vocabularies[name]) for name in fitted.schema.entities)
        ],
        "fitted": {f.name: _listed(getattr(fitted, f.name)) for f in fields(fitted) if f.name not in _OWN_PLACE},
        "explained": fitted.explained._asdict(),
        **({} if fitted.scales is None else {"scales": fitted.scales._asdict()}),
        **({} if fitted.row_noise is None else {"row_noise": _write_terms(fitted.row_noise)}),
        **({} if fitted.terms is None else {"terms": _write_terms(fitted.terms)}),
        **({} if fitted.pairs is None else {"pairs": [_write_pairs(pairs) for pairs in fitted.pairs]}),
        **_write_draws(fitted.draws),
    }


def _write_terms(terms: RowTerms | RowNoise) -> dict[str, Any]:
    return {name: _listed(value) for name, value in terms._asdict().items() if value is not None}


def _write_pairs(pairs: Pairs) -> dict[str, Any]:
    return {"code": pairs.code, "inverted": pairs.inverted}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _write_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    if type(likelihood) is not known().get(likelihood.name):
        msg = f"A model file holds the likelihoods of gcmf.likelihoods, not a {type(likelihood).__qualname__}."
        raise StorageError(msg)
    return {"name": likelihood.name, **asdict(likelihood)}  # type: ignore[call-overload]  # each is a dataclass


def _write_columns(columns: Columns | None) -> dict[str, Any]:
    if columns is None:
        return {}
    return {"columns": {name: value for name, value in columns._asdict().items() if value is not None}}


def _write_units(units: Units | None) -> dict[str, Any]:
    return {} if units is None else {"units": units._asdict()}


def _write_drawn(drawn: Drawn | None) -> dict[str, Any]:
    return {} if drawn is None else {"zeros": drawn._asdict()}


def _write_effects(effects: Effects | None) -> dict[str, Any]:
    if effects is None:
        return {}
    features = [feature._asdict() for feature in effects.features]
    known = {name: value for name, value in effects._asdict().items() if value is not None}
    return {"covariates": {**known, "features": features}}


def _write_draws(draws: Draws | None) -> dict[str, Any]:
    if draws is None:
        return {}
    parts = {name: _listed(part) for name, part in draws._asdict().items() if name not in _KNOWN_OF_DRAWS}
    if draws.origin is not None:
        parts["origin"] = {name: _listed(part) for name, part in draws.origin._asdict().items()}
    return {"draws": parts}


def _write_kind(kind: IdKind | None) -> dict[str, Any]:
    """Return how ids were brought, if there is more to say than their values; the categories are ids too."""
    if kind is None:
        return {}
    categories = pd.Index(kind.categories, tupleize_cols=False)
    said = {"name": kind.name, "levels": list(kind.levels), "ordered": kind.ordered, "categories": categories}
    return {"kind": said}


# --- in -----------------------------------------------------------------------------------------------------


def schema_matcher(document: dict[str, Any]) -> Matcher:
    """Return what compares arrays with the sets and relations of a document, which are compared here."""
    Matcher().match({key: document.get(key) for key in SCHEMA}, SCHEMA, "")
    entities, relations = [e["name"] for e in document["entities"]], document["relations"]
    _check_schema(entities, relations)

    def member_of(dim: str, n: int) -> str:
        if dim in ("parameters", "learned", "pairs"):
            return f"{dim} of relation {n}"
        if dim.endswith("+1"):
            return f"{member_of(dim[:-2], n)} and one more"
        if dim in ("features", "known features"):
            none = dim == "known features" and "covariates" not in document["entities"][n]
            return "no features" if none else f"features of {entities[n]!r}"
        if dim not in ("members", "ends", "columns"):
            return dim
        if dim == "members":
            return _members(entities[n])
        m, side = divmod(n, 2) if dim == "ends" else (n, 1)
        return _members(relations[m][("rows", "cols")[side]])

    sizes = {"entities": len(entities), "relations": len(relations), "layers": 2 * len(relations), "no features": 0}
    return Matcher(sizes, member_of)


def _members(entity: str) -> str:
    """The dimension that counts the members of an entity set."""
    return f"members of {entity!r}"


def _check_schema(entities: list[str], relations: list[dict[str, Any]]) -> None:
    names = [*entities, *(r[key] for r in relations for key in ("name", "rows", "cols"))]
    faults = [f"{times} entity sets are named {name!r}" for name, times in Counter(entities).items() if times > 1]
    faults += ["a name is empty"] * ("" in names)
    used = {r[side] for r in relations for side in ("rows", "cols")}
    faults += [f"no relation joins {name!r}" for name in entities if name not in used]
    faults += [f"there is no entity set {name!r}" for name in used if name not in entities]
    named: Any = [RelationSchema(r["name"], r["rows"], r["cols"], "") for r in relations]
    faults += schema_faults(named)  # of relations it looks at these alone
    for r in relations:
        if (r["rows"] == r["cols"]) != ("symmetric" in r):
            faults.append(
                f"relation {r['name']!r} must say whether it is symmetric exactly if it joins a set with itself"
            )
    if faults or not relations:
        msg = faults[0] if faults else "there is no relation"
        raise MalformedError(msg)


def read_fitted(document: Mapping[str, Any]) -> Fitted:
    """Return the fitted model that `describe_fitted` took, from a document whose form was compared already."""
    sizes = [len(mean) for mean in document["fitted"]["mean"]]
    if 0 in sizes:
        refuse("fitted/mean", 0, "at least one member of every entity set")
    relations = document["relations"]
    likelihoods = tuple(_read_likelihood(r["likelihood"], f"relations/{m}/likelihood") for m, r in enumerate(relations))
    schema = Schema(
        tuple(entity["name"] for entity in document["entities"]),
        tuple(RelationSchema(r["name"], r["rows"], r["cols"], lik.name, r.get("symmetric"), _read_columns(r))
              for r, lik in zip(relations, likelihoods, strict=True)),
    )  # fmt: skip
    arrays: dict[str, Any] = {name: tuple(a) if isinstance(a, list) else a for name, a in document["fitted"].items()}
    fitted = Fitted(
        schema=schema,
        vocabularies={entity["name"]: _read_vocabulary(entity, sizes[e], f"entities/{e}")
                      for e, entity in enumerate(document["entities"])},
        likelihoods=likelihoods,
        units=tuple(_read_units(r, m) for m, r in enumerate(relations)),
        explained=Explained(**document["explained"]),
        scales=FittedScales(**document["scales"]) if "scales" in document else None,
        row_noise=_read_noise(document["row_noise"]) if "row_noise" in document else None,
        effects={entity["name"]: _read_effects(entity["covariates"], f"entities/{e}/covariates")
                 for e, entity in enumerate(document["entities"]) if "covariates" in entity},
        terms=_read_terms(document["terms"], likelihoods, arrays["on"]) if "terms" in document else None,
        pairs=_read_pairs(document["pairs"], schema, sizes) if "pairs" in document else None,
        drawn={r["name"]: _read_drawn(r["zeros"], m) for m, r in enumerate(relations) if "zeros" in r},
        **arrays,
    )  # fmt: skip
    _check_numbers(fitted)
    return replace(fitted, draws=_read_draws(document["draws"], fitted)) if "draws" in document else fitted


def _read_noise(written: dict[str, Any]) -> RowNoise:
    arrays: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    noise = RowNoise(**arrays)
    refuse_faults({
        "row_noise/precision is not above zero": any(bool((rho <= 0).any()) for rho in noise.precision),
    })  # fmt: skip
    return noise


def _read_terms(written: dict[str, Any], likelihoods: tuple[Likelihood, ...], on: Any) -> RowTerms:
    arrays: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    terms = RowTerms(**arrays)
    pairs = zip(likelihoods, terms.parameters, strict=True)
    flat = terms.bias_prior[1][terms.biased] <= 0
    refuse_faults({
        "terms/parameters are not what the likelihood of their relation learns": not all(
            _is_learned(likelihood, p, point=terms.point) for likelihood, p in pairs
        ),
        "terms/precision is not above zero where a factor is on": bool((terms.precision[on] <= 0).any()),
        "terms/bias_prior holds a variance that is not above zero": bool(flat.any()),
        "terms/links is no covariance": not _is_covariance(terms.links),
    })  # fmt: skip
    return terms


def _is_covariance(links: Any) -> bool:
    size = float(np.abs(links).max(initial=0.0))
    return np.array_equal(links, links.T) and bool(np.linalg.eigvalsh(links).min(initial=0.0) >= -1e-9 * size)


def _is_learned(likelihood: Likelihood, p: Any, *, point: bool) -> bool:
    """Whether engines can take these numbers: as many as a fit starts with, from which predictions can be made."""
    prior = ParameterPrior(1.0, 1.0, point)
    if len(p) != len(likelihood.start(1.0, 1.0, prior)) or not (p[:1] > 0).all():
        return False
    with np.errstate(all="ignore"):
        return likelihood.is_settled(likelihood.settled(p, prior)) and bool(np.isfinite(likelihood.slope(p)))


def _read_pairs(written: list[dict[str, Any]], schema: Schema, sizes: list[int]) -> tuple[Pairs, ...]:
    pairs = []
    for m, (part, relation) in enumerate(zip(written, schema.relations, strict=True)):
        shape = sizes[schema.entity_index(relation.rows)], sizes[schema.entity_index(relation.cols)]
        pairs.append(Pairs(part["code"], shape, inverted=part["inverted"]))
        if (fault := pairs[-1].faults()) is not None:
            msg = f"pairs/{m}/code {fault}"
            raise MalformedError(msg)
    return tuple(pairs)


def _read_likelihood(written: dict[str, Any], where: str) -> Likelihood:
    name = written.get("name")
    if not isinstance(name, str) or name not in known():
        refuse(f"{where}/name", name, f"one of {', '.join(known())}")
    cls = known()[name]
    # Files from before there was a choice do not name it: all have its default.
    options = dict.fromkeys((f"{f.name}?" for f in fields(cls)), str | int | float)  # type: ignore[arg-type]  # a dataclass
    Matcher().match(written, {"name": str, **options}, where)
    try:
        return cls(**{key: value for key, value in written.items() if key != "name"})
    except (GcmfError, TypeError) as error:  # TypeError: an integer that is beyond all floats
        msg = f"{where}: {error}"
        raise MalformedError(msg) from error


def _read_columns(relation: dict[str, Any]) -> Columns | None:
    return Columns(**{"value": None, **relation["columns"]}) if "columns" in relation else None


def _read_units(relation: dict[str, Any], m: int) -> Units | None:
    if "units" not in relation:
        return None
    where = f"relations/{m}/units"
    if not known()[relation["likelihood"]["name"]].standardized:
        refuse(where, relation["units"], "nothing, as only Gaussian cells have units,")
    return Units(**relation["units"])


def _read_effects(written: dict[str, Any], where: str) -> Effects:
    features = tuple(Feature(**feature) for feature in written["features"])
    effects = Effects(**{**written, "features": features})
    if len(features) != len(effects.center) or not features:
        refuse(f"{where}/features", len(features), f"a name for each of {len(effects.center)} features")
    return effects


def _read_draws(written: dict[str, Any], fitted: Fitted) -> Draws:
    """Draws, with what else is known of the model that they are of."""
    own = np.arange(fitted.on.shape[1])
    mate = own if fitted.scales is None else fitted.scales.mate
    arrays: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in written.items()
                              if name not in ("unit", "origin")}  # fmt: skip
    if "unit" in written:  # older files have them as float16, in units
        pairs = zip(arrays["factors"], written["unit"], strict=True)
        arrays["factors"] = tuple(u.astype(np.float32) * unit.astype(np.float32) for u, unit in pairs)
    if any(u.dtype != np.float32 for u in arrays["factors"]):
        refuse("draws/factors", "float16", "float32, or a unit of each,")
    origin = None
    if "origin" in written:
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in written["origin"].items()
        }
        origin = Origin(**parts)
        _check_origin(origin, fitted)
    draws = Draws(
        **arrays, origin=origin, offset=fitted.offset, ends=np.array(fitted.ends),
        mates=np.where(fitted.directed[:, None], mate, own),
    )  # fmt: skip
    sizes = [(len(mean), f.shape[1]) for mean, f in zip(fitted.mean, draws.factors, strict=True)]
    sizes += [(len(b), d.shape[1]) for b, d in zip(fitted.bias_mean, draws.biases, strict=True)]
    refuse_faults({
        "draws/factors or biases are not of every member and of one more": any(d + 1 != n for d, n in sizes),
        "draws has no draw": draws.n == 0,
        "draws/parameters are not what the likelihood of their relation learns": not all(
            likelihood.is_settled(p) for likelihood, each in zip(fitted.likelihoods, draws.parameters, strict=True)
            for p in each
        ),
    })  # fmt: skip
    return draws


def _check_origin(origin: Origin, fitted: Fitted) -> None:
    """Refuse what new rows could not be drawn from."""
    biased = fitted.terms is not None and fitted.terms.biased
    refuse_faults({
        "draws/origin/turn cannot be undone": bool((np.linalg.slogdet(origin.turn)[0] == 0).any()),
        "draws/origin/precision is not above zero": not bool((origin.precision[origin.on] > 0).all()),
        "draws/origin/bias_prior holds a variance that is not above zero": bool(
            (origin.bias_prior[:, 1, biased] <= 0).any()
        ),
        "draws/origin/learned are not what the likelihood of their relation learns": not all(
            _is_learned(likelihood, p, point=True)
            for likelihood, each in zip(fitted.likelihoods, origin.learned, strict=True) for p in each
        ),
    })  # fmt: skip


def _read_drawn(written: dict[str, int], m: int) -> Drawn:
    drawn = Drawn(**written)
    if not 0 < drawn.n <= drawn.of:
        refuse(f"relations/{m}/zeros", written, "some of all zeros")
    return drawn


def _check_numbers(fitted: Fitted) -> None:
    """Refuse arrays of the right form that contradict each other."""
    as_given = ~np.array([likelihood.standardized for likelihood in fitted.likelihoods])
    moved = (fitted.center != 0) | (fitted.scale != 1)
    off = ~fitted.on
    n_columns = fitted.on.shape[1]
    sums = [np.abs(a).max(axis=0, initial=0.0) for pair in zip(fitted.mean, fitted.var, strict=True) for a in pair]
    faults = {
        "fitted/parameters are not what the likelihood of their relation learns": not all(
            likelihood.is_settled(p) for likelihood, p in zip(fitted.likelihoods, fitted.parameters, strict=True)
        ),
        "fitted/center or scale are of Gaussian cells, and the relation is not": bool(moved[as_given].any()),
        "fitted/prior_bias holds a negative variance": bool((fitted.prior_bias[1] < 0).any()),
        "fitted/on says that a factor is off which has members": any(
            (size[off[n // 2]] != 0).any() for n, size in enumerate(sums)
        ),
        "fitted/on says that a factor is off which has a prior": bool((fitted.prior_var[off] != 0).any()),
        f"fitted/n_weak is not a number from 0 to {n_columns}": not 0 <= fitted.n_weak <= n_columns,
        "fitted/on says that a factor is off which is active": bool((fitted.activity[off] != 0).any()),
    }
    refuse_faults(faults)
    if fitted.scales is not None:
        _check_scales(fitted, fitted.scales)


def _check_scales(fitted: Fitted, scales: FittedScales) -> None:
    """Refuse scales of factors that are not there."""
    own = np.arange(len(scales.mate))
    mutual = bool((scales.mate < len(own)).all()) and np.array_equal(scales.mate[scales.mate % max(len(own), 1)], own)
    refuse_faults({"scales/mate is not of two factors each": not mutual})
    held = np.array([fitted.on[r] & (fitted.on[c][scales.mate] if way else fitted.on[c])
                     for (r, c), way in zip(fitted.ends, fitted.directed, strict=True)])  # fmt: skip
    unseen = ~scales.on
    refuse_faults({
        "scales/on says that a relation sees a factor that its sets do not hold": bool((scales.on & ~held).any()),
        "scales/on says that a relation does not see a factor that it scales": bool(
            (scales.mean[unseen] != 0).any() or (scales.var[unseen] != 0).any()
        ),
    })  # fmt: skip


# --- ids ----------------------------------------------------------------------------------------------------


def _read_vocabulary(entity: dict[str, Any], size: int, where: str) -> Vocabulary:
    ids = decode(entity["ids"], size=size, where=f"{where}/ids")
    if entity["positional"] and not (isinstance(ids, pd.RangeIndex) and ids.start == 0 and ids.step == 1):
        refuse(f"{where}/positional", value=True, wanted="False, as the ids are no positions,")
    try:
        vocabulary = Vocabulary(ids)
        kind = _read_kind(entity["kind"], vocabulary, f"{where}/kind") if "kind" in entity else None
    except (GcmfError, TypeError) as error:  # TypeError: something that cannot be hashed
        msg = f"{where}/ids: {error}"
        raise MalformedError(msg) from error
    vocabulary.positional = entity["positional"]
    return vocabulary.of_kind(kind)


def _read_kind(kind: dict[str, Any], ids: Vocabulary, where: str) -> IdKind:
    """Return how ids were brought, if they can have been brought so."""
    name, levels = kind["name"], tuple(kind["levels"])
    # Vocabulary: categories are distinct, and none is null.
    categories = Vocabulary(decode(kind["categories"], size=None, where=f"{where}/categories"))
    if name == "levels":
        fits = bool(levels) and all(isinstance(item, tuple) and len(item) == len(levels) for item in ids.ids)
    elif name in ("category", "Enum"):
        fits = bool((categories.index(ids.ids) >= 0).all()) and (name == "category" or _is_text(categories))
    elif name == "Categorical":
        fits = _is_text(ids)
    elif name in _INTEGERS:
        fits = ids.ids.dtype.kind in "iu" and _is_within(ids.ids, name.lower())
    else:
        fits = False
    if not fits:
        refuse(where, name, "another, as its ids or categories cannot be of that kind,")
    return IdKind(name, levels, tuple(categories.ids), kind["ordered"])


def _is_text(ids: Vocabulary) -> bool:
    return all(isinstance(item, str) for item in ids.ids)


def _is_within(ids: pd.Index[Any], name: str) -> bool:
    if name == "int128":
        return True
    limits = np.iinfo(name)
    return bool(limits.min <= ids.min() and ids.max() <= limits.max)
