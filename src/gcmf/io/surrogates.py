"""Keys that only tell lines apart: a table with one relates the ids beside it, as ratings(id, user_id, movie_id)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gcmf.errors import counted
from gcmf.io.look import stem_of
from gcmf.io.sql import quote

if TYPE_CHECKING:
    from gcmf.io.columns import Column
    from gcmf.io.look import Look

_LABELS = {"name", "title", "label"}


def drop_surrogates(looks: list[Look]) -> tuple[list[Look], list[str]]:
    """Return the tables, those that relate ids without their own keys, and each doubt with the other reading.

    A key is dropped if no table refers to it, two columns or more refer to others, no title names its lines, and
    either a value or a time says that a line is an event, or no pair of ids repeats.
    """
    found = [_read(look, looks) for look in looks]
    return [look for look, _ in found], [doubt for _, doubt in found if doubt is not None]


def repeats(look: Look, ids: tuple[str, ...]) -> int:
    """Count the combinations of ids that a table lists more than once; lines that lack an id do not count."""
    listed = ", ".join(map(quote, ids))
    whole = " AND ".join(f"{quote(name)} IS NOT NULL" for name in ids)
    repeated = f"SELECT {listed} FROM {look.table.sql} WHERE {whole} GROUP BY {listed} HAVING count(*) > 1"
    return int(look.table.ask(f"SELECT count(*) FROM ({repeated})")[0][0])


def _read(look: Look, looks: list[Look]) -> tuple[Look, str | None]:
    dropped = [one.name for one in look.columns.values() if _tells_apart(one, look) and not _referred(one, look, looks)]
    ids = _references(look, looks, dropped)
    if not dropped or look.is_wide or len({_target(look.columns[name], look) for name in ids}) < 2:
        return look, None
    columns = {name: one for name, one in look.columns.items() if name not in dropped}
    changed = replace(look, key=None, columns=columns, surrogates=tuple(dropped))
    if look.key is None:
        return changed, None
    if look.key not in dropped:
        return look, None
    rest = [one for one in columns.values() if one.name not in ids]
    event = any(one.is_time or (one.is_number and one.names_value) for one in rest)
    titled = any(one.words[-1] in _LABELS and one.distinct == look.rows for one in rest)
    repeated = repeats(look, ids)
    plain = len(ids) == 2 and not repeated
    if titled or not (event or plain):
        return look, _doubt_of_things(look, ids)
    return changed, None if event and plain else _doubt_of_cells(look, ids, repeated=repeated)


def _tells_apart(column: Column, look: Look) -> bool:
    """Whether a column could be a key: ids that are all different, or line numbers in front."""
    if column.kind not in ("integer", "text") or column.distinct < look.rows or column.name in look.foreign:
        return False
    numbers = column.kind == "integer" and (column.high or 0) - (column.low or 0) == look.rows - 1
    return column.is_id or column.name == look.key or (numbers and column.name == next(iter(look.columns)))


def _referred(column: Column, look: Look, looks: list[Look]) -> bool:
    """Whether a table declares that it refers to this one, or has a column that is named so."""
    names = {_target(column, look), look.stem} if column.name == look.key else {_target(column, look)}
    for other in looks:
        if look.name in other.foreign.values():
            return True
        for one in other.columns.values() if other is not look else ():
            named = one.is_id or (other.key in (None, one.name) and not one.names_value)
            if named and _target(one, other) in names:
                return True
    return False


def _references(look: Look, looks: list[Look], dropped: list[str]) -> tuple[str, ...]:
    """Return the columns of ids of other things: declared, or named as ids."""
    known = {other.stem for other in looks if other is not look and other.key is not None}
    return tuple(
        one.name
        for one in look.columns.values()
        if one.name not in dropped
        and one.kind in ("integer", "text")
        and (one.name in look.foreign or one.is_id or (one.words[-1][-2:] == "id" and one.words[-1][:-2] in known))
    )


def _target(column: Column, look: Look) -> str:
    """Return what a column refers to, by its name or as declared."""
    return look.foreign.get(column.name) or stem_of(column, look)


def _doubt_of_cells(look: Look, ids: tuple[str, ...], *, repeated: int) -> str:
    repeating = f", though {counted(repeated, 'combination')} of them can be found more than once" if repeated else ""
    several = " (each two of them)" if len(ids) > 2 else ""
    pick = f" To use its values, write a [relations.{look.name}] with two of them as row and col." if several else ""
    return (
        f"{look.name} was taken for a relation of {_listed(ids)}{several}, since nothing refers to its {look.key}"
        f"{repeating}.{pick} If its lines are rather entities of their own, make it [features.{look.name}] with"
        f' rows = "{look.stem}" and row = "{look.key}".'
    )


def _doubt_of_things(look: Look, ids: tuple[str, ...]) -> str:
    return (
        f"{look.name}: its lines were taken for entities of their own, told apart by {look.key}. If the table rather"
        f" relates {_listed(ids)}, make it [relations.{look.name}] with two of them as row and col, and a query with"
        " GROUP BY where they repeat."
    )


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
