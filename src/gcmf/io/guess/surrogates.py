"""Keys that only tell lines apart: a table with one relates the ids beside it, as ratings(id, user_id, movie_id)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gcmf.errors import counted

if TYPE_CHECKING:
    from gcmf.io.guess.look import Look
    from gcmf.io.guess.summary import ColumnSummary

_LABELS = {"name", "title", "label"}


def drop_surrogates(looks: list[Look]) -> tuple[list[Look], list[str]]:
    """Return the tables, those that relate ids without their own keys, and each doubt with the other reading.

    A key is dropped if no table refers to it, two columns or more refer to others, no title names its lines, and
    either a value or a time says that a line is an event, or no pair of ids repeats.
    """
    judged = [_judge(look, looks) for look in looks]
    return [look for look, _ in judged], [doubt for _, doubt in judged if doubt is not None]


def _judge(look: Look, looks: list[Look]) -> tuple[Look, str | None]:
    dropped = [column.name for column in look.columns.values()
               if _tells_apart(column, look) and not _is_referred_to(column, look, looks)]  # fmt: skip
    ids = _references(look, looks, dropped)
    if not dropped or look.is_wide or len({_target(look.columns[name], look) for name in ids}) < 2:
        return look, None
    columns = {column.name: column for column in look.without(dropped)}
    changed = replace(look, key=None, columns=columns, surrogates=tuple(dropped))
    if look.key is None:
        return changed, None
    if look.key not in dropped:
        return look, None
    rest = changed.without(ids)
    event = any(column.is_time or (column.is_number and column.names_value) for column in rest)
    titled = any(column.words[-1] in _LABELS and column.distinct == look.rows for column in rest)
    repeated = look.count_repeats(ids)
    plain = len(ids) == 2 and not repeated
    listed = f"{', '.join(ids[:-1])} and {ids[-1]}"
    if titled or not (event or plain):
        return look, (
            f"{look.name}: its lines were taken for entities of their own, told apart by {look.key}. If the table"
            f" rather relates {listed}, make it [relations.{look.name}] with two of them as row and col, and a query"
            " with GROUP BY where they repeat."
        )
    if event and plain:
        return changed, None
    several = " (each two of them)" if len(ids) > 2 else ""
    repeating = f", though {counted(repeated, 'combination')} of them can be found more than once" if repeated else ""
    pick = f" To use its values, write a [relations.{look.name}] with two of them as row and col." if several else ""
    return changed, (
        f"{look.name} was taken for a relation of {listed}{several}, since nothing refers to its {look.key}{repeating}."
        f"{pick} If its lines are rather entities of their own, make it [features.{look.name}] with"
        f' rows = "{look.stem}" and row = "{look.key}".'
    )


def _tells_apart(column: ColumnSummary, look: Look) -> bool:
    """Whether a column could be a key: ids that are all different, or line numbers in front."""
    if not column.may_be_ids or column.distinct < look.rows or column.name in look.foreign:
        return False
    numbers = column.kind == "integer" and (column.high or 0) - (column.low or 0) == look.rows - 1
    return column.is_id or column.name == look.key or (numbers and column.name == next(iter(look.columns)))


def _is_referred_to(column: ColumnSummary, look: Look, looks: list[Look]) -> bool:
    """Whether a table declares that it refers to this one, or has a column that is named so."""
    if any(look.name in other.foreign.values() for other in looks):
        return True
    names = {_target(column, look), look.stem} if column.name == look.key else {_target(column, look)}
    return any(
        _target(candidate, other) in names
        and (candidate.is_id or (other.key in (None, candidate.name) and not candidate.names_value))
        for other in looks if other is not look
        for candidate in other.columns.values()
    )  # fmt: skip


def _references(look: Look, looks: list[Look], dropped: list[str]) -> tuple[str, ...]:
    """Return the columns of ids of other things: declared, or named as ids."""
    known = {other.stem for other in looks if other is not look and other.key is not None}
    glued = {f"{stem}id" for stem in known}
    return tuple(
        column.name
        for column in look.without(dropped)
        if column.may_be_ids and (column.name in look.foreign or column.is_id or column.words[-1] in glued)
    )


def _target(column: ColumnSummary, look: Look) -> str:
    """Return what a column refers to, by its name or as declared."""
    return look.foreign.get(column.name) or look.stem_of(column)
