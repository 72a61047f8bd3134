"""A model as one HTML file that needs nothing else: no network, no library, no server.

The page is fixed: markup, style and script are files beside this one and hold no data. What is told of a model is one
JSON text within it, in which no `<` is left, and the script writes every name and number of it as text, never as
markup. So an id can be `<script>` and is shown as that. The policy in the head forbids whatever is not the script and
the style of these files, by their digests, and every request.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcmf.data.collection import Collection
from gcmf.report.content import content
from gcmf.storage.files import check_target, replacing

if TYPE_CHECKING:
    from gcmf.estimators.gcmf import GCMF

LARGEST = 9_500_000
"""Bytes that a report may have."""
_MOST = (20_000, 5_000, 1_000, 200, 0)
"""Entities of each set that can be searched for: as many as the size allows."""


def write_report(model: GCMF, path: str | Path, test: Any = None) -> None:
    """Write the report of a model to a file, whole or not at all."""
    target = Path(path)
    check_target(target, what="the report")
    held = None if test is None else Collection.of(test, caller="report(test=)")
    text = render(model, held)
    with replacing(target, what="the report") as partial:
        partial.write_text(text, encoding="ascii")


def render(model: GCMF, test: Collection | None = None) -> str:
    """Return the report as HTML, with as many entities to search for as fit."""
    page = ""
    for most in _MOST:
        page = _page(content(model, test, most=most))
        if len(page) <= LARGEST:
            break
    return page


def _page(told: dict[str, Any]) -> str:
    """The fixed page with its style and script, and what there is to tell of one model."""
    style, script = _part("page.css"), _part("page.js")
    parts = {
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "style": style, "script": script, "data": _as_json(told),
        "summary": " ".join(_as_text(sentence) for sentence in told["summary"]),
    }  # fmt: skip
    before, page = _part("page.html"), ""
    # One pass from left to right: nothing that was put in is looked at again.
    while "{{" in before:
        head, _, rest = before.partition("{{")
        name, _, before = rest.partition("}}")
        page += head + parts[name]
    return page + before


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="ascii")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("ascii")).digest()).decode("ascii")


def _as_json(told: Any) -> str:
    """JSON in ASCII without <, > and &, so that nothing in it ends the element that holds it."""
    text = json.dumps(told, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _as_text(text: str) -> str:
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")
