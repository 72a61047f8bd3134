"""A model in the terminal, in tables."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from gcmf.cli.screen import console, plain_table
from gcmf.errors import counted

_MARK = "*"
"""Beside a noise that is not in the units of the table."""


def show_model(found: dict[str, Any]) -> None:
    """Show what `gcmf.io.results.describe` returns."""
    screen = console(wide=True)
    screen.print(Text("Entity sets", "bold"))
    screen.print(", ".join(f"{name} ({size:,})" for name, size in found["entities"].items()))
    for title, table in (("Relations, and the shares explained", _relations(found)), ("Factors", _factors(found))):
        screen.print()
        screen.print(Text(title, "bold"))
        screen.print(table)
        if table.columns[0].header == "relation" and any(one["standardized"] for one in found["relations"]):
            screen.print(f"{_MARK} in standard deviations of each column, as the biases that `export` writes")
    fit = found["fit"]
    screen.print()
    screen.print(f"{counted(fit['iterations'], 'sweep')}, ELBO {fit['elbo']:,.1f}, {fit['says']}")


def _relations(found: dict[str, Any]) -> Any:  # noqa: ANN401 - rich's
    table = plain_table("relation", "joins", "kind", "noise", "biases", "all")
    table.columns[1].justify = table.columns[2].justify = "left"
    table.columns[2].no_wrap = True
    for one in found["relations"]:
        noise = "" if one["noise_std"] is None else f"{one['noise_std']:.3g}{_MARK if one['standardized'] else ''}"
        shares = (f"{one['explained'][name]:.1%}" for name in ("bias", "total"))
        joins = f"{one['rows']} × {one['cols']}"
        table.add_row(one["name"], joins, one["likelihood"], noise, *shares)
    return table


def _factors(found: dict[str, Any]) -> Any:  # noqa: ANN401 - rich's
    """A line per factor: where it lives, with its activity there, and what it adds to each relation it reaches."""
    table = plain_table("factor", "role", "lives in (activity)", "adds to what is explained")
    for column in table.columns:
        column.justify = "left"
    for factor in found["factors"]:
        lives = ", ".join(f"{name} {value:.2f}" for name, value in factor["activity"].items() if value)
        adds = ", ".join(
            f"{one['name']} {one['explained'][factor['name']]:.1%}"
            for one in found["relations"]
            if one["name"] in factor["relations"]
        )
        table.add_row(factor["name"], factor["role"], lives, adds)
    return table
