"""`gcmf describe`: what a model found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from gcmf.cli.terminal import AsJson, ModelFile, console, load_model, plain_table, show_json
from gcmf.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

_MANY = 12
"""Names that are listed before the rest is counted."""
_MARK = "*"
"""Beside a noise that is not in the units of the table."""


def describe(model: ModelFile, as_json: AsJson = False) -> None:
    """Show schema, structure, variance explained, noise and convergence of a model."""
    from gcmf.io import results

    report = results.describe(load_model(model))
    if as_json:
        show_json(report)
    else:
        _show(report)


def _show(report: dict[str, Any]) -> None:
    screen = console(wide=True)
    screen.print(Text("Entity sets", "bold"))
    screen.print(", ".join(f"{name} ({size:,})" for name, size in report["entities"].items()))
    for name, covariates in report["covariates"].items():
        screen.print(_covariates(name, covariates))
    screen.print(Text("\nRelations, and the shares explained", "bold"))
    screen.print(_relations(report))
    if any(relation["standardized"] for relation in report["relations"]):
        screen.print(f"{_MARK} in standard deviations of each column, as the biases that `export` writes")
    for relation in report["relations"]:
        if relation["zeros"]:
            screen.print(f"{relation['name']} was fitted from {relation['zeros']['n']:,} of {relation['zeros']['of']:,}"
                         " zeros, drawn and weighed")  # fmt: skip
    screen.print(Text("\nFactors", "bold"))
    screen.print(_factors(report))
    fit = report["fit"]
    screen.print(f"\n{counted(fit['iterations'], 'sweep')}, {fit['objective']} {fit['elbo']:,.1f}, {fit['says']}")


def _covariates(name: str, covariates: dict[str, list[str]]) -> str:
    """What is known of an entity set, and what of it matters."""
    used = [f"its {what} depend on {_few(covariates[what])}" for what in ("factors", "biases") if covariates[what]]
    verdict = "; ".join(used) or "none of which matters"
    return f"{name} has {counted(len(covariates['columns']), 'covariate')}: {verdict}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY:,} more" if len(names) > _MANY else "")


def _relations(report: dict[str, Any]) -> Table:
    table = plain_table("relation", "joins", "kind", "noise", "biases", "all", left=3)
    table.columns[2].no_wrap = True
    for relation in report["relations"]:
        mark = _MARK if relation["standardized"] else ""
        noise = "" if relation["noise_std"] is None else f"{relation['noise_std']:.3g}{mark}"
        shares = (f"{relation['explained'][name]:.1%}" for name in ("bias", "total"))
        joins = f"{relation['rows']} × {relation['cols']}"
        if "symmetric" in relation:
            joins += ", symmetric" if relation["symmetric"] else ", directed"
        table.add_row(relation["name"], joins, relation["likelihood"], noise, *shares)
    return table


def _factors(report: dict[str, Any]) -> Table:
    """A line per factor: where it lives, with its activity there, and what it adds to each relation it reaches."""
    table = plain_table("factor", "role", "lives in (activity)", "adds to what is explained", left=4)
    for factor in report["factors"]:
        lives = ", ".join(f"{name} {value:.2f}" for name, value in factor["activity"].items() if value)
        table.add_row(factor["name"], factor["role"], lives, _adds(factor, report["relations"]))
    return table


def _adds(factor: dict[str, Any], relations: list[dict[str, Any]]) -> str:
    """What a factor adds to its relations, most first, a minus where its sign is negative; where it receives."""
    own = [relation for relation in relations if relation["name"] in factor["relations"]]
    strength = {r["name"]: r["strength"][factor["name"]] if "strength" in r else 1.0 for r in own}
    share = {r["name"]: r["explained"][factor["name"]] for r in own}
    acts = sorted((name for name in share if strength[name]), key=lambda name: -share[name])
    adds = _few([f"{name} {share[name]:.1%}{' (−)' if strength[name] < 0 else ''}" for name in acts])
    received = [name for name in share if not strength[name]]
    if not received:
        return adds
    return "; ".join(part for part in (adds, f"receives from {factor['mate']} in {_few(received)}") if part)
