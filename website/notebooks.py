"""A notebook, run, as a page: text, code, and what the code showed."""

from __future__ import annotations

import base64
import html
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

#: What a terminal reads as colors and moves of its cursor, and what it has written over.
_ESCAPES, _OVERWRITTEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), re.compile(r"[^\n]*\r")


def run(path: Path, *, timeout: int = 300) -> Any:  # noqa: ANN401 - nbformat has no types
    """Return a notebook with the outputs of a fresh kernel, in a folder of its own."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # for `!gcmf`
        client = NotebookClient(book, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env={**os.environ, "PATH": here, "COLUMNS": "100"})
    return book


def page(book: Any, path: Path) -> dict[str, str | bytes]:  # noqa: ANN401 - nbformat has no types
    """Return the page of a notebook that was run, and its pictures, by name."""
    files: dict[str, str | bytes] = {}
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts.append(_text("".join(output.text for output in cell.outputs if output.output_type == "stream")))
        parts += [_shown(output, path.stem, files) for output in cell.outputs if output.output_type != "stream"]
    parts.append(f"[This page as a notebook]({path.name}){{ download }}")
    files[f"{path.stem}.md"] = "\n\n".join(part for part in parts if part)
    return files


def _shown(output: Any, stem: str, files: dict[str, str | bytes]) -> str:  # noqa: ANN401 - nbformat has no types
    """One output: a picture, a table, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}-{sum(other.endswith('.png') for other in files) + 1}.png"
        files[name] = base64.b64decode(data["image/png"])
        return f"![What the code above draws]({name})"
    if "text/html" in data:
        inner = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        return (
            '<div class="output" tabindex="0" role="region" aria-label="Output" markdown="0">\n'
            + re.sub(r"\n\s*\n", "\n", inner)
            + "\n</div>"
        )
    return _text(data.get("text/plain", ""))


def _text(text: str) -> str:
    plain = _OVERWRITTEN.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n")).rstrip()
    return f'<pre class="output" tabindex="0">{html.escape(plain)}</pre>' if plain else ""
