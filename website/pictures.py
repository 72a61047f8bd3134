"""A page whose code is run, with each `figure` that it draws shown below."""

from __future__ import annotations

import io
import re
from typing import Any

_BLOCK = re.compile(r"^(?:## (?P<title>[^\n]*)|```python\n(?P<code>.*?)^```)$", re.MULTILINE | re.DOTALL)


def with_pictures(page: str, *, folder: str) -> tuple[str, dict[str, bytes]]:
    """Return the page with pictures after the blocks that make a new `figure`, and the pictures by their names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    pictures: dict[str, bytes] = {}
    parts, at, title = [], 0, ""
    for block in _BLOCK.finditer(page):
        title = block["title"] or title
        if block["code"] is None:
            continue
        names.pop("figure", None)
        exec(block["code"], names)
        parts.append(page[at : block.end()])
        at = block.end()
        if "figure" in names:
            path = f"{folder}/{len(pictures) + 1}.png"
            pictures[path] = _drawn(names["figure"])
            parts.append(f"\n\n![{title}]({path})\n")
    return "".join([*parts, page[at:]]), pictures


def _drawn(figure: Any) -> bytes:  # noqa: ANN401 - a figure, or axes
    buffer = io.BytesIO()
    getattr(figure, "figure", figure).savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
