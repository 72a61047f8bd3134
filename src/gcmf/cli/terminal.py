"""The console of all commands: whatever is printed on it is text, and nothing but text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from gcmf.cli.screen import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class Terminal(Console):
    """Shows control characters as their escapes, and reads neither markup nor emoji codes in what it is given."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:  # noqa: ANN401 - rich's options
        """Every string passes here: those printed, and the cells and heads of tables."""
        return super().render_str(visible(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text with a style passes here, and loses its styles if it holds what must be escaped."""
        if isinstance(renderable, Text) and (shown := visible(renderable.plain)) != renderable.plain:
            whole = {name: getattr(renderable, name) for name in ("justify", "overflow", "no_wrap", "end")}
            renderable = Text(shown, renderable.style, **whole)
        return super().render(renderable, options)
