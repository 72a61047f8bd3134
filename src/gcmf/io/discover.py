"""`gcmf init`: from a look at tables to a first project file, each guess explained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, counted
from gcmf.io.columns import COUNT_WORDS, RATING_WORDS
from gcmf.io.guess import Links, link
from gcmf.io.layouts import matrix_relations, wide_relation
from gcmf.io.look import look_at
from gcmf.io.schema import EntitySpec, FeatureSpec, RelationSpec
from gcmf.io.sql import quote
from gcmf.io.surrogates import drop_surrogates, repeats

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gcmf.io.columns import Column
    from gcmf.io.look import Look, Report

_MAX_CATEGORIES = 50
_RULE = (
    "numeric: standardized, gaussian; booleans: as they are, bernoulli; categories: a 0/1 column per value, bernoulli"
)


@dataclass
class Found:
    """A project to be written: its sections, why each is as it is, and what a person should check."""

    relations: list[RelationSpec] = field(default_factory=list)
    features: list[FeatureSpec] = field(default_factory=list)
    entities: list[EntitySpec] = field(default_factory=list)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """By section, such as "relations.ratings"."""
    notes: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """Every column that no section uses, and why."""

    def taken(self, one: str, other: str) -> str | None:
        """Return the relation that already joins two sets."""
        return next((own.name for own in self.relations if {own.rows, own.cols} == {one, other}), None)

    def ignore(self, look: Look, columns: dict[str, str]) -> list[str]:
        """Note the columns of a table that are not used, and why; return the comment that says so."""
        columns = dict.fromkeys(look.surrogates, "it only tells the lines apart") | columns
        self.unused += [f"{look.name}.{name} ({why})" for name, why in columns.items()]
        for name in columns:
            odd = None if name in look.surrogates else look.columns[name].odd
            if odd is not None:
                self.notes.append(f"{look.name}.{name} was not used: it holds numbers, but for {odd!r}.")
        return [f"not used: {', '.join(f'{name} ({why})' for name, why in columns.items())}"] if columns else []

    def say_lacking(self, look: Look, ids: Iterable[str]) -> None:
        """Note the lines that cannot be used, as an id is missing."""
        for column in (look.columns[name] for name in ids if look.columns[name].nulls):
            self.notes.append(f"{look.name}.{column.name} is empty in {counted(column.nulls, 'line')}: left out.")

    def relate(self, spec: RelationSpec, reasons: list[str]) -> None:
        """Add a relation, unless the model cannot have it beside the others."""
        taken = self.taken(spec.rows, spec.cols)
        if taken is not None or spec.rows == spec.cols:
            why = f"{taken} already joins them" if taken else "the model does not cover a set related with itself"
            self.notes.append(f"{spec.table or spec.source}: a relation {spec.rows} × {spec.cols} was left out, {why}.")
            return
        self.relations.append(spec)
        self.reasons[f"relations.{spec.name}"] = reasons


def discover(source: Path, *, base: Path, report: Report = lambda *_: None) -> Found:
    """Look at a folder of tables or a database, and guess what it relates.

    Columns that declared keys, names or shared values tie together become entity sets, tables with two columns of
    ids relations, other columns of a table with a line per entity features.

    Raises
    ------
    DataError
        When there is no table, or none that relates anything.
    """
    looks, skipped = look_at(source, base=base, report=report)
    matrices, unread = matrix_relations(source, base=base)
    skipped += unread
    if not looks and not matrices:
        msg = f"{source} holds no table that can be read." + "".join(f" {note}" for note in skipped)
        raise DataError(msg)
    looks, doubts = drop_surrogates(looks)
    links = link(looks)
    found = Found(notes=[*doubts, *skipped, *links.notes])
    wide = [look for look in looks if look.is_wide]
    for look in [one for one in wide if _is_constant(one)]:
        found.notes.append(f"{look.name} was left out: all of its numbers are the same, which says nothing.")
        looks.remove(look)
        wide.remove(look)
    for spec, reasons, notes in [*(wide_relation(look, looks, links) for look in wide), *matrices]:
        found.relate(spec, reasons)
        found.notes += notes
    looks = [look for look in looks if look not in wide]
    for look in (one for one in looks if one.key is None and len(links.of(one)) == 2):
        _pair(found, look, links)
    for look in (one for one in looks if one.key is None and len(links.of(one)) > 2):
        _triple(found, look, links)
    for look in looks:
        if look.key is not None:
            _references(found, look, links)
        elif len(links.of(look)) < 2 and look.name not in links.itself:
            found.notes.append(f"{look.name} was left out: it has no two columns of ids, and no key.")
    used = {entity for one in found.relations for entity in (one.rows, one.cols)}
    for look in (one for one in looks if one.key is not None):
        _features(found, look, links, used=used or {links.entities[look.name, look.key or ""]})
    if not found.relations and not found.features:
        msg = f"Nothing in {source} relates anything: no table has two columns of ids or features of a key."
        msg += "".join(f" {note}" for note in found.notes)
        raise DataError(msg)
    return found


def _is_constant(look: Look) -> bool:
    """Whether a wide table has one number only."""
    rest = [one for one in look.columns.values() if one.name != look.key and one.distinct]
    return all(one.distinct == 1 for one in rest) and len({one.low for one in rest}) < 2


def _origin(look: Look) -> dict[str, Any]:
    return {key: value for key, value in asdict(look.source).items() if key not in ("query", "where")}


def _whole(look: Look, *ids: str) -> str | None:
    """Return the condition that a line has its ids, where some have not."""
    return " AND ".join(f"{quote(name)} IS NOT NULL" for name in ids if look.columns[name].nulls) or None


def _grouped(look: Look, columns: tuple[str, str], value: str) -> dict[str, Any]:
    """Return the source of a table whose cells are put together by a query."""
    origin = _origin(look)
    table = quote(origin.pop("table") or "source")
    pair = ", ".join(map(quote, columns))
    return {**origin, "query": f"SELECT {pair}, {value} FROM {table} GROUP BY {pair}"}


def _pair(found: Found, look: Look, links: Links) -> None:
    """A table of cells: two columns of ids, and one value or none."""
    (row, rows), (col, cols) = links.of(look).items()
    if rows == cols:
        found.notes.append(f"{look.name} relates {rows} with itself, which the model does not cover; it was left out.")
        return
    value, reasons = _value_column(found, look, (row, col))
    reasons = [_ids_said(look, links, row), _ids_said(look, links, col), *reasons]
    repeated, where = repeats(look, (row, col)), _whole(look, row, col)
    found.say_lacking(look, (row, col))
    if value is None:
        origin = _origin(look)
        if repeated:
            origin = {**_grouped(look, (row, col), "1 AS related")}
            reasons.append(f"{counted(repeated, 'pair')} listed more than once: each counts as once")
        reasons.append('no column of values: a listed pair is a 1, and blanks = "zero" takes all others for 0;'
                       ' use "missing" if nothing is known of them')  # fmt: skip
        spec = RelationSpec(**origin, where=where, name=look.name, rows=rows, cols=cols, row=row, col=col,
                            likelihood="bernoulli", blanks="zero")  # fmt: skip
        found.relate(spec, reasons)
        return
    likelihood, why = _likelihood(look.columns[value])
    origin = _origin(look)
    if repeated:
        how = "sum" if likelihood == "poisson" else "max" if likelihood == "bernoulli" else "avg"
        origin = _grouped(look, (row, col), f"{how}({quote(value)}) AS {quote(value)}")
        found.notes.append(
            f"{look.name} lists {counted(repeated, 'pair')} more than once; the {how} of the values is used."
        )
    spec = RelationSpec(**origin, where=where, name=look.name, rows=rows, cols=cols, row=row, col=col, value=value,
                        likelihood=likelihood, blanks="missing")  # fmt: skip
    found.relate(spec, [*reasons, why, 'blanks = "missing": a pair that is not listed was never observed'])


def _triple(found: Found, look: Look, links: Links) -> None:
    """A table with three columns of ids or more: how often each two of them meet."""
    unused = found.ignore(look, {name: "only how often ids meet is used" for name in look.columns
                                 if name not in links.of(look)})  # fmt: skip
    found.say_lacking(look, links.of(look))
    for (row, rows), (col, cols) in combinations(links.of(look).items(), 2):
        spec = RelationSpec(**_grouped(look, (row, col), "count(*) AS n"), where=_whole(look, row, col),
                            name=f"{look.name}_{rows}_{cols}", rows=rows, cols=cols, row=row, col=col, value="n",
                            likelihood="poisson", blanks="missing")  # fmt: skip
        found.relate(spec, [f"{look.name} has {len(links.of(look))} columns of ids: how often each two meet is a count",
                            *unused, 'blanks = "missing": a pair that never met is not taken for a 0'])  # fmt: skip


def _references(found: Found, look: Look, links: Links) -> None:
    """A table with a key that refers to others: each reference is a relation of ones."""
    key = look.key or ""
    for column, entity in links.of(look).items():
        if column != key:
            own = links.entities[look.name, key]
            spec = RelationSpec(**_origin(look), where=_whole(look, column), name=f"{look.name}_{entity}", rows=own,
                                cols=entity, row=key, col=column, likelihood="bernoulli", blanks="zero")  # fmt: skip
            found.relate(
                spec, [_ids_said(look, links, column), "each line refers to one: it is a 1, and all others are 0"]
            )


def _features(found: Found, look: Look, links: Links, *, used: set[str]) -> None:
    """The other columns of a table with a key, or at least its ids."""
    key, own = look.key or "", links.entities[look.name, look.key or ""]
    if own not in used:
        found.notes.append(f"{look.name} was left out: nothing else mentions its {own}.")
        return
    kinds: dict[str, list[str]] = {"numeric": [], "booleans": [], "categories": []}
    unused = {}
    for column in look.columns.values():
        if column.name not in links.of(look):
            kind, why = _feature_kind(column, look)
            if kind:
                kinds[kind].append(column.name)
            else:
                unused[column.name] = why
    reasons = [_ids_said(look, links, key), *found.ignore(look, unused)]
    chosen: dict[str, Any] = {kind: tuple(names) for kind, names in kinds.items()}
    if any(chosen.values()):
        found.features.append(FeatureSpec(**_origin(look), name=look.name, rows=own, row=key, **chosen))
        found.reasons[f"features.{look.name}"] = [*reasons, _RULE]
    elif own not in [one.name for one in found.entities]:
        found.entities.append(EntitySpec(**_origin(look), name=own, id=key))
        found.reasons[f"entities.{own}"] = [*reasons, "all ids count, those that no relation mentions too"]


def _feature_kind(column: Column, look: Look) -> tuple[str | None, str]:
    """Return where a column belongs, or None and why nowhere."""
    if column.distinct < 2:
        return None, "all alike"
    if column.is_binary:
        return "booleans", ""
    if column.is_time or column.kind == "other":
        return None, "a time" if column.is_time else "neither number nor text"
    if column.kind in ("integer", "number") and not column.is_id and not column.is_code:
        return "numeric", ""
    if column.distinct <= min(_MAX_CATEGORIES, look.rows / 2):
        return "categories", ""
    return None, f"{column.distinct:,} different values"


def _value_column(found: Found, look: Look, ids: tuple[str, str]) -> tuple[str | None, list[str]]:
    """Return the column of values of a table of cells, and what became of the others."""
    rest = [one for one in look.columns.values() if one.name not in ids]
    numbers = [one for one in rest if _no_value(one) is None]
    named = [one for one in numbers if one.names_value]
    value = next(iter(named or numbers), None)
    if len(numbers) > 1 and len(named) != 1 and value is not None:
        others = ", ".join(one.name for one in numbers if one is not value)
        found.notes.append(f"{look.name}: {value.name} was taken for the value; {others} could be it too.")
    unused = {
        one.name: _no_value(one) or f"{value.name if value else ''} is the value" for one in rest if one is not value
    }
    return value.name if value else None, found.ignore(look, unused)


def _no_value(column: Column) -> str | None:
    """Return why a column cannot hold the values of cells, if so."""
    if not column.is_number:
        return "text" if column.kind == "text" else "neither number nor text"
    if column.is_time or column.is_id:
        return "a time" if column.is_time else "ids"
    return "all alike" if column.distinct < 2 else None


def _likelihood(column: Column) -> tuple[str, str]:
    """Guess what kind of number a column holds."""
    low, high = column.low or 0.0, column.high or 0.0
    name = f"{column.name} holds"
    if column.is_binary:
        return "bernoulli", f"bernoulli: {name} only 0 and 1"
    if column.kind != "integer" or low < 0:
        return "gaussian", f"gaussian: {name} real numbers from {low:g} to {high:g}"
    words = set(column.words)
    scale = high <= 10 and column.distinct <= 11 and not words & COUNT_WORDS
    if scale or words & RATING_WORDS:
        return (
            "gaussian",
            f"gaussian: {name} {column.distinct} levels from {low:g} to {high:g}, a scale rather than a count",
        )
    return "poisson", f"poisson: {name} whole numbers from {low:g} to {high:g}, as counts are"


def _ids_said(look: Look, links: Links, column: str) -> str:
    return f"{column} holds ids of {links.entities[look.name, column]}: {links.reasons[look.name, column]}"
