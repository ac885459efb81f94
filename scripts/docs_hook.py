"""For mkdocs: README, CONTRIBUTING and CHANGELOG become pages of the site, examples its files.

They stand at the repository's root, where people look for them; mkdocs knows ``docs/`` alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_ROOT = Path(__file__).parent.parent
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
_FILES = ("LICENSE", "examples/**/*.ipynb", "examples/**/*.json")
_LINK = re.compile(r"(?<=\]\()(?P<up>\.\./)?(?P<path>[^):#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what stands outside of ``docs/``."""
    for source, page in _PAGES.items():
        text = (_ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_linked(text)))
    for pattern in _FILES:
        for path in sorted(_ROOT.glob(pattern)):
            name = path.relative_to(_ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_context: object) -> str:
    """Let a page's links to what stands beside ``docs/`` lead into the site."""
    return _linked(markdown)


def _linked(text: str) -> str:
    def link(match: re.Match[str]) -> str:
        path = match["path"]
        return _PAGES.get(path, path.removeprefix("docs/"))

    return _LINK.sub(link, text)
