"""mkdocs hook: the pages that stand elsewhere in the repository, and links between them and the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: Where a file of the repository is in the sources of the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/comparison/README.md": "comparison/design.md",
    "schemas/README.md": "schemas.md",
}
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(root / name).read_text(encoding="utf-8")))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links as they work in the repository into links as they work in the site."""
    here = page.file.src_uri
    home = next((name for name, uri in PAGES.items() if uri == here), f"docs/{here}")

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), found["path"]))
        uri = PAGES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(uri, posixpath.dirname(here) or ".") + (found["anchor"] or "")

    return LINK.sub(moved, markdown)
