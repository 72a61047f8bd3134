"""Which columns hold the ids of which entity set."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gcmf.io.look import stem_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gcmf.io.columns import Column
    from gcmf.io.look import Look

_GENERIC = {"name", "title", "code", "label", "key", "index", "number"}
"""Names of keys that do not say what they are keys of."""
_SAME = 0.9
"""Two columns of which this share of all values is common hold the same things."""
_PART = 0.99
"""A column of which this share of the values is among the keys of a table refers to that table."""


@dataclass
class Links:
    """Table and column to entity set, why, and what a person should check."""

    entities: dict[tuple[str, str], str] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    itself: set[str] = field(default_factory=set)
    """Tables that relate an entity set with itself."""

    def of(self, look: Look) -> dict[str, str]:
        """Return the entity columns of a table, in order, and their sets."""
        return {name: self.entities[look.name, name] for name in look.columns if (look.name, name) in self.entities}

    def add(self, look: Look, column: str, entity: str, why: str) -> None:
        """Note what a column holds."""
        self.entities[look.name, column] = entity
        self.reasons[look.name, column] = why


def link(looks: list[Look]) -> Links:
    """Decide by declared keys, then by names, then by shared values."""
    links = Links()
    owners = _keys(looks, links)
    _declared(looks, links, owners)
    _by_name(looks, links, owners)
    _by_values(looks, links)
    _loose(looks, links)
    _check_overlap(looks, links)
    return links


def _keys(looks: list[Look], links: Links) -> dict[str, str]:
    """Name the entity set of every table with a key; return the names by which each may be referred to."""
    owners: dict[str, str] = {}
    keys = Counter(look.key for look in looks)
    for look in looks:
        if look.key is not None:
            # A key that several tables have in common, such as patient, says more than the name of either table.
            says = (keys[look.key] > 1 or look.is_wide) and look.key.lower() not in _GENERIC
            named = look.columns[look.key].is_id or says
            entity = stem_of(look.columns[look.key], look) if named else look.stem
            links.add(look, look.key, entity, f"it tells the lines of {look.name} apart")
            owners[entity] = entity
    for look in looks:
        if look.key is not None:
            owners.setdefault(look.stem, links.entities[look.name, look.key])
    return owners


def _declared(looks: list[Look], links: Links, owners: dict[str, str]) -> None:
    by_name = {look.name: look for look in looks}
    for look in looks:
        for column, to in look.foreign.items():
            target = by_name.get(to)
            if target is not None and target.key is not None and (look.name, column) not in links.entities:
                links.add(look, column, links.entities[to, target.key], f"the database declares that it refers to {to}")
                owners.setdefault(stem_of(look.columns[column], look), links.entities[to, target.key])


def _by_name(looks: list[Look], links: Links, owners: dict[str, str]) -> None:
    """Link columns named as a table or its key, and those that several tables name alike."""
    tables: dict[str, set[str]] = {}
    for look, column in _open(looks, links):
        if column.is_id or _glued(column, owners):
            tables.setdefault(_stem(column, look, owners), set()).add(look.name)
    for look, column in _open(looks, links):
        stem = _stem(column, look, owners)
        named = column.is_id or _glued(column, owners)
        if stem in owners and (named or column.distinct > 1) and not _is_feature(look, column, named=named):
            links.add(look, column.name, owners[stem], f"named as {owners[stem]}")
        elif named and len(tables.get(stem, ())) > 1:
            links.add(look, column.name, stem, f"{len(tables[stem])} tables have a column of this name")


def _by_values(looks: list[Look], links: Links) -> None:
    """Link columns of ids whose names say nothing to the key that holds their values."""
    keys = [look for look in looks if look.key is not None]
    for look, column in list(_open(looks, links)):
        if not (column.is_id or (column.kind == "text" and column.distinct > 50)):
            continue
        best: tuple[float, Look | None, str] = (0.0, None, "")
        twin = _twin(looks, links, look, column)
        rival = overlap(look, column.name, look, twin)[1] if twin else 0.0
        for other in keys:
            entity = links.entities[other.name, other.key or ""]
            if other is look or entity in links.of(look).values() or other.columns[other.key or ""].kind != column.kind:
                continue
            inside, same = overlap(look, column.name, other, other.key or "")
            if inside >= _PART and same >= max(0.5, rival) and same > best[0]:
                best = (same, other, entity)
        if best[1] is not None:
            links.add(look, column.name, best[2], f"its values are those of {best[1].name}.{best[1].key}")
            links.notes.append(
                f"{look.name}.{column.name} and {best[1].name}.{best[1].key} have different names and the same values;"
                f" both were taken for {best[2]}."
            )


def _loose(looks: list[Look], links: Links) -> None:
    """Take ids that only one table has, where they pair with others; and two plain columns where nothing says id."""
    for look in looks:
        if look.key is not None:
            continue
        for column in [one for one in look.columns.values() if (look.name, one.name) not in links.entities]:
            if column.is_id and column.kind in ("integer", "text"):
                twin = _twin(looks, links, look, column)
                if twin is not None:
                    links.itself.add(look.name)
                    links.notes.append(
                        f"{look.name}.{column.name} holds the same ids as {look.name}.{twin}: the table relates"
                        f" {links.entities[look.name, twin]} with itself, which the model does not cover; it was left"
                        " out."
                    )
                    break
                links.add(look, column.name, stem_of(column, look), "its name says that it holds ids")
        found = links.of(look)
        plain = [one for one in look.columns.values()
                 if one.name not in found and one.kind in ("integer", "text") and not one.is_time]  # fmt: skip
        if look.name not in links.itself and len(found) < 2 <= len(found) + len(plain) and len(look.columns) <= 5:
            for column in plain[: 2 - len(found)]:
                links.add(look, column.name, stem_of(column, look), "it is among the first columns of a table of cells")
                links.notes.append(
                    f"{look.name}.{column.name} was taken for ids of {stem_of(column, look)}, since it is among the"
                    " first columns and no name says id; if it holds something else, name another column as row or col."
                )


def _twin(looks: list[Look], links: Links, look: Look, column: Column) -> str | None:
    """Return the other column of the table that holds the same ids, if its entity set is known from elsewhere."""
    for name, entity in links.of(look).items():
        elsewhere = any(entity in links.of(other).values() for other in looks if other is not look)
        if elsewhere and look.columns[name].kind == column.kind and overlap(look, column.name, look, name)[1] >= _SAME:
            return name
    return None


def _check_overlap(looks: list[Look], links: Links) -> None:
    """Note columns that were linked and share no value."""
    first: dict[str, tuple[Look, str]] = {}
    for look in sorted(looks, key=lambda one: one.key is None):
        for name, entity in links.of(look).items():
            other, column = first.setdefault(entity, (look, name))
            if other is not look and overlap(look, name, other, column)[0] == 0:
                links.notes.append(
                    f"{look.name}.{name} and {other.name}.{column} were both taken for {entity}, but share no value."
                )


def overlap(one: Look, column: str, other: Look, other_column: str) -> tuple[float, float]:
    """Return which share of the values of a column is in the other, and which of all values is in both."""
    mine = {row[0] for row in one.table.ask(one.distinct(column))}
    theirs = {row[0] for row in other.table.ask(other.distinct(other_column))}
    both = len(mine & theirs)
    return both / max(len(mine), 1), both / max(len(mine | theirs), 1)


def _open(looks: list[Look], links: Links) -> Iterable[tuple[Look, Column]]:
    """Yield the columns that could hold ids and are not linked yet."""
    for look in (one for one in looks if not one.is_wide):
        for column in look.columns.values():
            if (look.name, column.name) not in links.entities and column.kind in ("integer", "text"):
                yield look, column


def _glued(column: Column, owners: Iterable[str]) -> bool:
    """Whether a name is a known one with "id" glued to it: userid."""
    name = column.words[-1]
    return len(column.words) == 1 and name.endswith("id") and name[:-2] in owners


def _stem(column: Column, look: Look, owners: Iterable[str]) -> str:
    return column.words[-1][:-2] if _glued(column, owners) else stem_of(column, look)


def _is_feature(look: Look, column: Column, *, named: bool) -> bool:
    """Whether a column without "id" in its name, in a table of entities, is rather a category of theirs."""
    return look.key is not None and not named and column.distinct <= 50
