"""`gcmf init`: from a look at tables to a first project file, each guess explained."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import combinations, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.raw import alike
from gcmf.errors import DataError, counted
from gcmf.io.guess.draft import Draft
from gcmf.io.guess.links import Links, link, says_direction
from gcmf.io.guess.look import files_of, look_at, relative, table_name
from gcmf.io.guess.summary import COUNT_WORDS, RATING_WORDS
from gcmf.io.guess.surrogates import drop_surrogates
from gcmf.io.sources.duck import quote
from gcmf.io.sources.specs import EntitySpec, FeatureSpec, RelationSpec
from gcmf.likelihoods.counts import residuals

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.guess.look import Look
    from gcmf.io.guess.summary import ColumnSummary
    from gcmf.io.sources.specs import Report
    from gcmf.likelihoods.counts import Residuals

_MAX_CATEGORIES = 50
_KNOWN = 0.9
"""Columns of which this share is among the keys of a table are entities of its set."""
_FEATURE_RULE = (
    "numeric: standardized, gaussian; booleans: as they are, bernoulli; categories: a 0/1 column per value, bernoulli"
)


def discover(source: Path, *, base: Path, report: Report = lambda *_: None) -> Draft:
    """Look at a folder of tables or a database, and guess what it relates.

    Columns that declared keys, names or shared values tie together become entity sets, tables with two columns of
    ids relations, other columns of a table with a line per entity features. Where there is no table, or none that
    relates anything, that is an error.
    """
    looks, skipped = look_at(source, base=base, report=report)
    matrices = [file for file in files_of(source)[0] if file.name.lower().endswith((".mtx", ".mtx.gz"))]
    looks, doubts = drop_surrogates(looks)
    links = link(looks)
    drafting = _Drafting(looks, links, Draft(notes=[*doubts, *skipped, *links.notes]))
    draft = drafting.draft
    drafting.add_wide_tables()
    for file in matrices:
        drafting.add_matrix(file, base)
    if not looks and not draft.relations:
        msg = f"{source} holds no table that can be read." + "".join(f" {note}" for note in draft.notes)
        raise DataError(msg)
    drafting.add_tables()
    if not draft.relations and not draft.features:
        msg = f"Nothing in {source} relates anything: no table has two columns of ids or features of a key."
        msg += "".join(f" {note}" for note in draft.notes)
        raise DataError(msg)
    return draft


class _Drafting:
    """A draft that grows, table by table."""

    def __init__(self, looks: list[Look], links: Links, draft: Draft) -> None:
        self.links, self.draft = links, draft
        self.wide = [look for look in looks if look.is_wide]
        self.tall = [look for look in looks if not look.is_wide]

    def note(self, text: str) -> None:
        self.draft.notes.append(text)

    def relate(self, spec: RelationSpec, reasons: list[str]) -> None:
        """Add a relation; where its name is taken, its column is added to it."""
        if spec.rows == spec.cols and spec.symmetric is None:
            spec = replace(spec, symmetric=False)
        if spec.name in [other.name for other in self.draft.relations]:
            spec = replace(spec, name=f"{spec.name}_{spec.col}")
        self.draft.relations.append(spec)
        self.draft.reasons[f"relations.{spec.name}"] = reasons

    def ignore(self, look: Look, columns: dict[str, str]) -> list[str]:
        """Note the columns of a table that are not used, and why; return the comment that says so."""
        columns = dict.fromkeys(look.surrogates, "it only tells the lines apart") | columns
        shown = [f"{name} ({why})" for name, why in columns.items()]
        self.draft.unused += [f"{look.name}.{said}" for said in shown]
        for name in columns:
            if name in look.columns and look.columns[name].odd is not None:
                self.note(f"{look.name}.{name} was not used: it holds numbers, but for {look.columns[name].odd!r}.")
        return [f"not used: {', '.join(shown)}"] if shown else []

    def say_lacking(self, look: Look, ids: list[str]) -> None:
        """Note the lines that cannot be used, as an id is missing."""
        for name in ids:
            if look.columns[name].nulls:
                self.note(f"{look.name}.{name} is empty in {counted(look.columns[name].nulls, 'line')}: left out.")

    # --- tables that are a relation as they are --------------------------------------------------------------------

    def add_wide_tables(self) -> None:
        for look in list(self.wide):
            rest = [column for column in look.without([look.key]) if column.distinct]
            if all(column.distinct == 1 for column in rest) and len({column.low for column in rest}) < 2:
                self.note(f"{look.name} was left out: all of its numbers are the same, which says nothing.")
                self.wide.remove(look)
        for look in self.wide:
            self.add_wide_table(look)

    def add_wide_table(self, look: Look) -> None:
        key, rest = look.key or "", look.without([look.key])
        cols, why = self.column_set(look, [column.name for column in rest])
        whole = all(column.kind != "number" and (column.low or 0) >= 0 for column in rest)
        high = max(column.high or 0 for column in rest)
        bits = all(column.is_bits or not column.distinct for column in rest)  # one may hold but one of them, or nothing
        likelihood, held = ("bernoulli", "only 0 and 1") if bits else ("gaussian", "real numbers")
        if not bits and whole and high > 10:
            varied = residuals(look.first_numbers(column.name for column in rest))
            likelihood, held = varied.likelihood, f"whole numbers, {_as_counts(varied)}"
        n = len(rest)
        if look.is_numbered:
            reason = f"no column can hold ids, as all {n} hold 0 and 1: a column per {cols}, lines are numbered"
            note = (
                f"{look.name} has no column of ids: it was taken for a wide table, its lines numbered from 1 as {key},"
                f" a column per {cols}{why}; to relate its lines with other tables, give it a column of ids."
            )
        else:
            reason = f"{key} tells the lines apart, and the other {n} columns are all numbers: a column per {cols}"
            note = (
                f"{look.name} was taken for a wide table, a column per {cols}{why}; if its columns differ in kind, make"
                f" it [features.{look.name}] with numeric = [...]."
            )
        rows = self.links.of_key(look)
        spec = RelationSpec(**asdict(look.source), name=look.name, rows=rows, cols=cols, row=key,
                            likelihood=likelihood, layout="wide",
                            symmetric=self.is_mirrored(look) if rows == cols else None)  # fmt: skip
        self.relate(spec, [reason, f"{likelihood}: they hold {held}; an empty cell is missing"])
        self.note(note)

    def is_mirrored(self, look: Look) -> bool:
        """Guess whether a wide table of a set with itself is symmetric: it is as far as its first lines go."""
        key, names = look.key or "", [column.name for column in look.without([look.key])]
        lines = [str(line) for line in look.first(key)]
        x = look.first_numbers(names)
        at = {name: k for k, name in enumerate(names)}
        known = [(n, at[line]) for n, line in enumerate(lines) if line in at]
        square = np.array([[x[n, k] for _, k in known] for n, _ in known])
        given = ~np.isnan(square) & ~np.isnan(square.T)
        symmetric = bool(alike(square[given], square.T[given]).all())
        why = "the same both ways" if symmetric else "not the same both ways"
        self.note(
            f"{look.name} relates {self.links.of_key(look)} with itself; its numbers are {why}, so symmetric ="
            f" {str(symmetric).lower()} is a guess. Its diagonal is left out."
        )
        return symmetric

    def column_set(self, look: Look, names: list[str]) -> tuple[str, str]:
        """Return what the columns are, and why: the keys of another table, or what their names begin with."""
        for other in (look, *self.tall):
            if other.key is not None and not other.is_numbered:
                known = other.values(other.key)
                if sum(name in known for name in names) >= _KNOWN * len(names):
                    return self.links.of_key(other), f" as {other.name} lists them"
        alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*(name.lower() for name in names), strict=False))
        start = "".join(letters[0] for letters in alike).rstrip("0123456789_- .")
        # A table without a header has column0, column1 and so on, which are no entities that another one has too.
        return (start, "") if len(start) >= 3 and start != "column" else (f"{look.stem}_column", "")

    def add_matrix(self, file: Path, base: Path) -> None:
        """Add a Matrix Market file."""
        from scipy.io import mminfo, mmread

        try:
            rows, cols, entries, layout, kind, symmetry = mminfo(file)
        except (ValueError, OSError) as error:
            self.note(f"{file.name} was left out: it cannot be read as Matrix Market: {error}")
            return
        name = table_name(file)
        likelihood, counts = {"pattern": "bernoulli"}.get(kind, "gaussian"), ""
        if kind == "integer":
            varied = residuals(mmread(file))
            likelihood, counts = varied.likelihood, f", {_as_counts(varied)}"
        blanks: Any = None if layout == "array" else "missing" if likelihood == "gaussian" else "zero"
        mirrored = symmetry == "symmetric"
        ends = (f"{name}_item",) * 2 if mirrored else (f"{name}_row", f"{name}_col")
        spec = RelationSpec(source=relative(file, base), name=name, rows=ends[0], cols=ends[1], likelihood=likelihood,
                            blanks=blanks, layout="matrix", symmetric=True if mirrored else None)  # fmt: skip
        shape = f"{rows:,} × {cols:,}, {counted(entries, 'value')} of kind {kind}{counts}"
        self.relate(spec, [f"a Matrix Market file, {shape}; its rows and columns are numbered from 0"])
        guess = f'; nor what its blanks are: blanks = "{blanks}" is a guess.' if blanks else "."
        told = f"rename {spec.rows}" if mirrored else f"rename {spec.rows} and {spec.cols}"
        self.note(f"{file.name} does not say what its rows and columns are: {told}{guess}")

    # --- tables with columns of ids --------------------------------------------------------------------------------

    def add_tables(self) -> None:
        of = self.links.of
        keyless = [look for look in self.tall if look.key is None]
        for look in (look for look in keyless if len(of(look)) == 2):
            self.add_pairs(look)
        for look in (look for look in keyless if len(of(look)) > 2):
            self.add_meetings(look)
        for look in self.tall:
            if look.key is not None:
                self.add_references(look)
            elif len(of(look)) < 2:
                self.note(f"{look.name} was left out: it has no two columns of ids, and no key.")
        used = {entity for relation in self.draft.relations for entity in (relation.rows, relation.cols)}
        for look in self.tall:
            if look.key is not None:
                self.add_features(look, used=used)

    def add_pairs(self, look: Look) -> None:
        """Add a table of cells: two columns of ids, and one value or none."""
        (row, rows), (col, cols) = self.links.of(look).items()
        value, unused = self.value_column(look, [row, col])
        reasons = [self.links.say(look, row), self.links.say(look, col), *unused]
        repeated = look.count_repeats([row, col])
        self.say_lacking(look, [row, col])
        keys: dict[str, Any] = {"name": look.name, "rows": rows, "cols": cols, "row": row, "col": col}
        if rows == cols:
            keys["symmetric"] = self.goes_both_ways(look, row, col, None if value is None else value.name)
        if value is None:
            keys |= {"likelihood": "bernoulli", "blanks": "zero"}
            if repeated:
                reasons.append(f"{counted(repeated, 'pair')} listed more than once: each counts as once")
            reasons.append('no column of values: a listed pair is a 1, and blanks = "zero" takes all others for 0;'
                           ' use "missing" if nothing is known of them')  # fmt: skip
            grouped = "1 AS related"
        else:
            likelihood, why = _guess_likelihood(value)
            if likelihood == "poisson":
                varied = look.count_residuals(row, col, f"sum({quote(value.name)})")
                likelihood, why = varied.likelihood, f"{varied.likelihood}: {why}, {_as_counts(varied)}"
            keys |= {"value": value.name, "likelihood": likelihood, "blanks": "missing"}
            how = {"poisson": "sum", "negative_binomial": "sum", "bernoulli": "max"}.get(likelihood, "avg")
            if repeated:
                pairs = counted(repeated, "pair")
                self.note(f"{look.name} lists {pairs} more than once; the {how} of the values is used.")
            reasons += [why, 'blanks = "missing": a pair that is not listed was never observed']
            grouped = f"{how}({quote(value.name)}) AS {quote(value.name)}"
        origin = _origin(look, row, col, grouped=grouped if repeated else None)
        if rows == cols:
            self.leave_out_loops(look, row, col, origin)
        self.relate(RelationSpec(**origin, **keys), reasons)

    def goes_both_ways(self, look: Look, row: str, col: str, value: str | None) -> bool:
        """Guess whether a table relates a set with itself without a direction: all pairs come both ways, or none.

        Not where names tell the ends apart, or pairs have another value the other way.
        """
        share, differ = look.both_ways(row, col, value)
        symmetric = share in (0.0, 1.0) and not differ and not says_direction(look.columns[row], look.columns[col])
        listed = {0.0: "no pair is listed both ways", 1.0: "every pair is listed both ways"}
        why = listed.get(share, f"{share:.0%} of the pairs are listed both ways")
        why += ", some with another value" if differ else ""
        self.note(
            f"{look.name} relates {self.links.of(look)[row]} with itself; {why}, so symmetric ="
            f" {str(symmetric).lower()} is a guess."
        )
        return symmetric

    def leave_out_loops(self, look: Look, row: str, col: str, origin: dict[str, Any]) -> None:
        """Leave out the lines that relate an entity with itself, and say so."""
        loops = look.count_loops(row, col)
        if not loops:
            return
        entity, lines = self.links.of(look)[row], counted(loops, "line")
        self.note(f"{look.name} relates a {entity} with itself in {lines}: left out, there is no such cell.")
        apart = f"{quote(row)} <> {quote(col)}"
        origin["where"] = f"{origin['where']} AND {apart}" if origin["where"] else apart

    def add_meetings(self, look: Look) -> None:
        """Add a table with three columns of ids or more: how often each two of them meet."""
        ids = self.links.of(look)
        rest = {column.name: "only how often ids meet is used" for column in look.without(ids)}
        reasons = [f"{look.name} has {len(ids)} columns of ids: how often each two meet is a count"]
        reasons += [*self.ignore(look, rest), 'blanks = "missing": a pair that never met is not taken for a 0']
        self.say_lacking(look, list(ids))
        for (row, rows), (col, cols) in combinations(ids.items(), 2):
            taken = [one.name for one in self.draft.relations if {one.rows, one.cols} == {rows, cols}]
            if taken:  # what only counts lines adds little to a table of its own
                self.note(f"{look.name}: how often {rows} meets {cols} was left out, {taken[0]} already joins them.")
                continue
            varied = look.count_residuals(row, col, "count(*)")
            spec = RelationSpec(**_origin(look, row, col, grouped="count(*) AS n"), name=f"{look.name}_{rows}_{cols}",
                                rows=rows, cols=cols, row=row, col=col, value="n", likelihood=varied.likelihood,
                                blanks="missing")  # fmt: skip
            self.relate(spec, [*reasons, f"{varied.likelihood}: {_as_counts(varied)}"])

    def add_references(self, look: Look) -> None:
        """Add the references of a table with a key: each of them is a relation of ones."""
        for column, entity in self.links.of(look).items():
            if column != look.key:
                spec = RelationSpec(**_origin(look, column), name=f"{look.name}_{entity}", rows=self.links.of_key(look),
                                    cols=entity, row=look.key, col=column, likelihood="bernoulli",
                                    blanks="zero")  # fmt: skip
                why = "each line refers to one: it is a 1, and all others are 0"
                self.relate(spec, [self.links.say(look, column), why])

    def add_features(self, look: Look, *, used: set[str]) -> None:
        """Add the other columns of a table with a key, or at least its ids."""
        key, entity = look.key or "", self.links.of_key(look)
        if used and entity not in used:
            self.note(f"{look.name} was left out: nothing else mentions its {entity}.")
            return
        kinds: dict[str, list[str]] = {"numeric": [], "booleans": [], "categories": []}
        unused = {}
        for column in look.without(self.links.of(look)):
            kind, why = _feature_kind(column, look)
            if why:
                unused[column.name] = why
            else:
                kinds[kind].append(column.name)
        reasons = [self.links.say(look, key), *self.ignore(look, unused)]
        columns: dict[str, Any] = {kind: tuple(names) for kind, names in kinds.items()}
        if any(columns.values()):
            feature = FeatureSpec(**_origin(look), name=look.name, rows=entity, row=key, **columns)
            self.draft.features.append(feature)
            self.draft.reasons[f"features.{look.name}"] = [*reasons, _FEATURE_RULE]
            return
        unknown = [name for name in self.links.of(look) if name != key and look.columns[name].nulls]
        if unknown:  # ids that are declared have zeros in every listing, and what is empty is not known
            self.note(f"{look.name}: its ids are not declared, as a line without {unknown[0]} is no line of zeros.")
        elif entity not in [declared.name for declared in self.draft.entities]:
            self.draft.entities.append(EntitySpec(**_origin(look), name=entity, id=key))
            reasons.append("all ids count, those that no relation mentions too")
            self.draft.reasons[f"entities.{entity}"] = reasons

    def value_column(self, look: Look, ids: list[str]) -> tuple[ColumnSummary | None, list[str]]:
        """Return the column of values of a table of cells, and what became of the others."""
        rest = look.without(ids)
        numbers = [column for column in rest if _no_value(column) is None]
        named = [column for column in numbers if column.names_value]
        value = next(iter(named or numbers), None)
        if len(numbers) > 1 and len(named) != 1 and value is not None:
            others = ", ".join(column.name for column in numbers if column is not value)
            self.note(f"{look.name}: {value.name} was taken for the value; {others} could be it too.")
        taken = f"{value.name} is the value" if value else ""
        unused = {column.name: _no_value(column) or taken for column in rest if column is not value}
        return value, self.ignore(look, unused)


def _origin(look: Look, *ids: str, grouped: str | None = None) -> dict[str, Any]:
    """Return the source of a table: lines that have their ids; with `grouped`, cells put together by a query."""
    origin = {key: value for key, value in asdict(look.source).items() if key != "query"}
    lacking = [name for name in ids if look.columns[name].nulls]
    origin["where"] = " AND ".join(f"{quote(name)} IS NOT NULL" for name in lacking) or None
    if grouped is not None:
        pair = ", ".join(map(quote, ids))
        origin["query"] = f"SELECT {pair}, {grouped} FROM {quote(origin.pop('table') or 'source')} GROUP BY {pair}"
    return origin


def _feature_kind(column: ColumnSummary, look: Look) -> tuple[str, str]:
    """Return where a column belongs, or why nowhere."""
    if column.distinct < 2:
        return "", "all alike"
    if column.is_binary:
        return "booleans", ""
    if column.is_time or column.kind == "other":
        return "", "a time" if column.is_time else "neither number nor text"
    if column.kind in ("integer", "number") and not column.is_id and not column.is_code:
        return "numeric", ""
    if column.distinct <= min(_MAX_CATEGORIES, look.rows / 2):
        return "categories", ""
    return "", f"{column.distinct:,} different values"


def _no_value(column: ColumnSummary) -> str | None:
    """Return why a column cannot hold the values of cells, if so."""
    if not column.is_number:
        return "text" if column.kind == "text" else "neither number nor text"
    if column.is_time or column.is_id:
        return "a time" if column.is_time else "ids"
    return "all alike" if column.distinct < 2 else None


def _guess_likelihood(column: ColumnSummary) -> tuple[str, str]:
    """Guess what kind of number a column holds, and say why."""
    low, high = column.low or 0.0, column.high or 0.0
    words, holds = set(column.words), f"{column.name} holds"
    if column.is_binary:
        return "bernoulli", f"bernoulli: {holds} only 0 and 1"
    if column.kind != "integer" or low < 0:
        return "gaussian", f"gaussian: {holds} real numbers from {low:g} to {high:g}"
    if (high <= 10 and column.distinct <= 11 and not words & COUNT_WORDS) or words & RATING_WORDS:
        levels = f"{column.distinct} levels from {low:g} to {high:g}, a scale rather than a count"
        return "gaussian", f"gaussian: {holds} {levels}"
    return "poisson", f"{holds} whole numbers from {low:g} to {high:g}"


def _as_counts(varied: Residuals) -> str:
    """Say how counts vary."""
    if varied.likelihood == "poisson":
        return "as counts are"
    return f"counts that vary {varied.ratio:.2g} times as much as Poisson ones around the means of rows and columns"
