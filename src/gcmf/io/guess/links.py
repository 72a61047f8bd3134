"""Which columns hold the ids of which entity set."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gcmf.io.guess.summary import entity_of, name_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gcmf.io.guess.look import Look
    from gcmf.io.guess.summary import ColumnSummary

_GENERIC = {"name", "title", "code", "label", "key", "index", "number"}
"""Names of keys that do not say what they are keys of."""
_SAME = 0.9
"""Two columns of which this share of all values is common hold the same things."""
_PART = 0.99
"""A column of which this share of the values is among the keys of a table refers to that table."""

_SHARED = 0.3
"""Two columns of one table of which this share of all texts is common hold the same things."""
_DIRECTED = [
    {"from", "to"}, {"follower", "followee"}, {"follower", "followed"}, {"follower", "user"}, {"parent", "child"},
    {"citing", "cited"}, {"sender", "receiver"}, {"truster", "trustee"},
]  # fmt: skip
_ENDS = [*_DIRECTED, {"source", "target"}, {"src", "dst"}, {"head", "tail"}]
"""Words by which the names of two columns with the ends of a link differ."""
_NUMBERED = [{"1", "2"}, {"a", "b"}]
"""Last letters of columns that are otherwise named alike."""


def says_direction(one: ColumnSummary, other: ColumnSummary) -> bool:
    """Whether the names of two columns tell who of the two is first."""
    return set(name_words(entity_of(one.name))) ^ set(name_words(entity_of(other.name))) in _DIRECTED


@dataclass
class Links:
    """Table and column to entity set, why, and what a person should check."""

    entities: dict[tuple[str, str], str] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, look: Look) -> dict[str, str]:
        """Return the entity columns of a table, in order, and their sets."""
        return {name: self.entities[look.name, name] for name in look.columns if (look.name, name) in self.entities}

    def of_key(self, look: Look) -> str:
        """Return the entity set of the lines of a table with a key."""
        return self.entities[look.name, look.key or ""]

    def say(self, look: Look, column: str) -> str:
        """Return what a column holds, and why."""
        return f"{column} holds ids of {self.entities[look.name, column]}: {self.reasons[look.name, column]}"

    def add(self, look: Look, column: str, entity: str, why: str) -> None:
        """Note what a column holds."""
        self.entities[look.name, column] = entity
        self.reasons[look.name, column] = why


def link(looks: list[Look]) -> Links:
    """Decide by declared keys, then by names, then by shared values; columns without names by values alone."""
    links = Links()
    owners = _link_keys(looks, links)
    _link_declared(looks, links, owners)
    _link_by_name(looks, links, owners)
    _link_by_values(looks, links)
    for look in looks:
        if look.key is None:
            _link_ends(look, links)
            _link_loose(look, looks, links)
    _check_overlap(looks, links)
    nameless = ", ".join(look.name for look in looks if look.is_nameless and not look.is_wide)
    if nameless:
        links.notes.append(
            f"no line with the names of its columns: {nameless}. Such columns were joined with others by their values"
            " alone, where that is said here; if two sets are one, give them one name."
        )
    return links


def _link_keys(looks: list[Look], links: Links) -> dict[str, str]:
    """Name the entity set of every table with a key; return the names by which each may be referred to."""
    owners: dict[str, str] = {}
    keyed = [(look, look.key) for look in looks if look.key is not None]
    times = Counter(key for _, key in keyed)
    for look, key in keyed:
        # A key that several tables have in common, such as patient, says more than the name of either table.
        telling = (times[key] > 1 or look.is_wide) and key.lower() not in _GENERIC and not look.is_nameless
        column = look.columns[key]
        entity = look.stem_of(column) if column.is_id or telling else look.stem
        links.add(look, key, entity, f"it tells the lines of {look.name} apart")
        owners[entity] = entity
    for look, _ in keyed:
        owners.setdefault(look.stem, links.of_key(look))
    return owners


def _link_declared(looks: list[Look], links: Links, owners: dict[str, str]) -> None:
    keyed = {look.name: look for look in looks if look.key is not None}
    for look in looks:
        for column, to in look.foreign.items():
            if to in keyed and (look.name, column) not in links.entities:
                entity = links.of_key(keyed[to])
                links.add(look, column, entity, f"the database declares that it refers to {to}")
                owners.setdefault(look.stem_of(look.columns[column]), entity)


def _link_by_name(looks: list[Look], links: Links, owners: dict[str, str]) -> None:
    """Link columns named as a table or its key, and those that several tables name alike."""

    def read(look: Look, column: ColumnSummary) -> tuple[str, bool]:
        """Return what a name says, and whether it says id; userid is a known name with "id" glued to it."""
        word = column.words[-1]
        if len(column.words) == 1 and word.endswith("id") and word[:-2] in owners:
            return word[:-2], True
        return look.stem_of(column), column.is_id

    tables = defaultdict(set)
    for look, column in _open_columns(looks, links):
        stem, says_id = read(look, column)
        if says_id:
            tables[stem].add(look.name)
    for look, column in _open_columns(looks, links):
        stem, says_id = read(look, column)
        feature = look.key is not None and not says_id and column.distinct <= 50  # rather a category of its lines
        if stem in owners and (says_id or column.distinct > 1) and not feature:
            links.add(look, column.name, owners[stem], f"named as {owners[stem]}")
        elif says_id and len(tables[stem]) > 1:
            links.add(look, column.name, stem, f"{len(tables[stem])} tables have a column of this name")


def _link_by_values(looks: list[Look], links: Links) -> None:
    """Link columns of ids whose names say nothing to the key that holds their values."""
    for look, column in _open_columns(looks, links):
        says_ids = column.is_id or (look.is_nameless and look.key is None)
        if column.is_time or (not says_ids and (column.kind != "text" or column.distinct <= 50)):
            continue
        twin = _twin(looks, links, look, column)
        best_share = _overlap(look, column.name, look, twin)[1] if twin else 0.0
        best: Look | None = None
        for other in looks:
            if other is look or other.key is None or other.columns[other.key].kind != column.kind:
                continue
            if links.of_key(other) in links.of(look).values():
                continue
            inside, same = _overlap(look, column.name, other, other.key)
            if inside >= _PART and same >= max(0.5, best_share) and (best is None or same > best_share):
                best, best_share = other, same
        if best is not None:
            _join_by_values(links, (look, column.name), (best, best.key or ""))


def _join_by_values(links: Links, here: tuple[Look, str], there: tuple[Look, str]) -> None:
    """Take a column for ids of the set of another, and say so."""
    (look, column), (other, name) = here, there
    entity = links.entities[other.name, name]
    links.add(look, column, entity, f"its values are those of {other.name}.{name}")
    names = "" if look.is_nameless else "different names and "
    links.notes.append(
        f"{look.name}.{column} and {other.name}.{name} have {names}the same values; both were taken for {entity}."
    )


def _link_ends(look: Look, links: Links) -> None:
    """Take two columns that share their ids, as those of a network do, for ids of one entity set."""
    for column in look.without(links.of(look)):
        if not column.may_be_ids or column.is_time:
            continue
        for other in look.columns.values():
            if other is column or not other.may_be_ids or not _are_ends(look, column, other):
                continue
            entity = links.entities.get((look.name, other.name)) or _set_of(look, column, other)
            if (look.name, other.name) not in links.entities:
                links.add(look, other.name, entity, f"it shares ids with {column.name}")
            links.add(look, column.name, entity, f"it shares ids with {other.name}")
            break


def _are_ends(look: Look, one: ColumnSummary, other: ColumnSummary) -> bool:
    """Whether two columns are ends of links: they share some values and are named so, or share many texts.

    Numbers that two columns have in common say nothing by themselves: ids of all kinds are counted from 1.
    """
    if one.kind != other.kind:
        return False
    same = _overlap(look, one.name, look, other.name)[1]
    differ = set(name_words(entity_of(one.name))) ^ set(name_words(entity_of(other.name)))
    named = (differ in _ENDS or len(_common_name(one, other)) > 0) and not look.is_nameless
    return same > 0 if named else one.kind == "text" and same >= _SHARED


def _set_of(look: Look, one: ColumnSummary, other: ColumnSummary) -> str:
    """What to call the entities that two columns hold: by what their names share, or by the first that says id."""
    if look.is_nameless:
        return f"{look.stem}_node"
    named = set(name_words(entity_of(one.name))) ^ set(name_words(entity_of(other.name))) in _ENDS
    return _common_name(one, other) or (entity_of(one.name) if one.is_id and not named else "node")


def _common_name(one: ColumnSummary, other: ColumnSummary) -> str:
    """The name of columns like user1 and user2, or user_a and user_b, without what tells them apart."""
    first, second = entity_of(one.name), entity_of(other.name)
    apart = first[:-1] == second[:-1] and {first[-1:], second[-1:]} in _NUMBERED
    start = first[:-1].rstrip("_- .")
    return start if apart and len(start) > 1 else ""


def _link_loose(look: Look, looks: list[Look], links: Links) -> None:
    """Take ids that only one table has, where they pair with others; and two plain columns where nothing says id."""
    for column in look.without(links.of(look)):
        if column.is_id and column.may_be_ids:
            twin = _twin(looks, links, look, column)
            if twin is not None:
                links.add(look, column.name, links.entities[look.name, twin], f"it holds the same ids as {twin}")
                continue
            links.add(look, column.name, look.stem_of(column), "its name says that it holds ids")
    lacking = 2 - len(links.of(look))
    plain = [column for column in look.without(links.of(look)) if column.may_be_ids and not column.is_time]
    if 0 < lacking <= len(plain) and len(look.columns) <= 5:
        for column in plain[:lacking]:
            like = _same_values(look, column, looks, links) if look.is_nameless else None
            if like is not None:
                other, name = like
                _join_by_values(links, (look, column.name), (other, name))
                continue
            entity = look.stem_of(column)
            links.add(look, column.name, entity, "it is among the first columns of a table of cells")
            links.notes.append(
                f"{look.name}.{column.name} was taken for ids of {entity}, since it is among the first columns and no"
                " name says id; if it holds something else, name another column as row or col."
            )


def _same_values(look: Look, column: ColumnSummary, looks: list[Look], links: Links) -> tuple[Look, str] | None:
    """Return the column of another table that holds the same things, by their values, if its set is not here yet."""
    for other in looks:
        for name, entity in links.of(other).items() if other is not look else ():
            alike = other.columns[name].kind == column.kind and entity not in links.of(look).values()
            if alike and _overlap(look, column.name, other, name)[1] >= _SAME:
                return other, name
    return None


def _twin(looks: list[Look], links: Links, look: Look, column: ColumnSummary) -> str | None:
    """Return the other column of the table that holds the same ids, if its entity set is known from elsewhere."""
    for name, entity in links.of(look).items():
        elsewhere = any(entity in links.of(other).values() for other in looks if other is not look)
        if elsewhere and look.columns[name].kind == column.kind and _overlap(look, column.name, look, name)[1] >= _SAME:
            return name
    return None


def _check_overlap(looks: list[Look], links: Links) -> None:
    """Note columns that were linked and share no value."""
    first: dict[str, tuple[Look, str]] = {}
    for look in sorted(looks, key=lambda look: look.key is None):
        for name, entity in links.of(look).items():
            other, column = first.setdefault(entity, (look, name))
            if other is not look and _overlap(look, name, other, column)[0] == 0:
                links.notes.append(
                    f"{look.name}.{name} and {other.name}.{column} were both taken for {entity}, but share no value."
                )


def _overlap(look: Look, column: str, other: Look, other_column: str) -> tuple[float, float]:
    """Return which share of the values of a column is in the other, and which of all values is in both."""
    values, others = look.values(column), other.values(other_column)
    both = len(values & others)
    return both / max(len(values), 1), both / max(len(values | others), 1)


def _open_columns(looks: list[Look], links: Links) -> Iterable[tuple[Look, ColumnSummary]]:
    """Return the columns that could hold ids and are not linked yet."""
    tall = [look for look in looks if not look.is_wide]
    return [(look, column) for look in tall for column in look.without(links.of(look)) if column.may_be_ids]
