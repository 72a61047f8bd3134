"""`gcmf`, the command. Nothing heavy is imported before a command runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gcmf import __version__
from gcmf.cli.demo import demo
from gcmf.cli.reproduce import reproduce
from gcmf.cli.screen import show_error
from gcmf.errors import GcmfError


class Commands(TyperGroup):
    """Shows an error that gcmf raises on purpose as a paragraph, and any other as the traceback it needs."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - Typer's context has several homes
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GcmfError as error:
            if ctx.params.get("debug"):
                raise
            show_error(str(error))
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if wanted:
        typer.echo(f"gcmf {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[  # noqa: FBT002 - as Typer wants it
        bool,
        typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,  # noqa: FBT002
) -> None:
    """Learn one low-rank representation of any collection of matrices that share entities."""
    del version, debug
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command()(demo)
app.command()(reproduce)
