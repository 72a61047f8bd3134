"""What mkdocs does beside turning pages into HTML: pages from the root, links between them, notebooks, pictures."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from website import notebooks
from website.pictures import with_pictures

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: Files of the root, and what they are on the site.
FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "CITATION.cff",
    "LICENSE": "LICENSE.txt",
}
_LINK = re.compile(r"(\]\()([^)\s:]+)(\))")
#: Pages in which the figures that their code draws are shown below it.
_DRAWN = ("gallery.md",)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages from the root of the repository, and the notebooks, run."""
    for name, page in FROM_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=linked(text, name, page) if page.endswith(".md") else text))
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        for name, content in notebooks.page(notebooks.run(path), path).items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the root where it is on the site, and draw what is to be drawn."""
    name = page.file.src_uri
    if name in _DRAWN:
        markdown, pictures = with_pictures(markdown, folder=posixpath.splitext(name)[0])
        for path, content in pictures.items():
            files.append(File.generated(config, path, content=content))
    return linked(markdown, f"docs/{name}", name) if (ROOT / "docs" / name).exists() else markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make wide tables boxes that the keyboard can scroll."""
    del page, config, files
    box = '<div class="wide" tabindex="0" role="region" aria-label="Table"><table class="plain">'
    return re.sub(r"<table>(.*?)</table>", rf"{box}\1</table></div>", html, flags=re.DOTALL)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the theme's search a name, which it lacks."""
    del page, config
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def linked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository, its links to other files as those from a page of the site."""

    def turned(link: re.Match[str]) -> str:
        path, anchor = link[2].partition("#")[::2]
        if not path:
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = FROM_ROOT.get(target) or target.removeprefix("docs/").replace(".ipynb", ".md")
        relative = posixpath.relpath(on_site, posixpath.dirname(page) or ".")
        return f"{link[1]}{relative}{'#' if anchor else ''}{anchor}{link[3]}"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)  # code is left as it is
    return "".join(part if part.startswith("```") else _LINK.sub(turned, part) for part in parts)
