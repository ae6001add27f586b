r"""What ``make docs`` adds to mkdocs, as its hooks (``mkdocs.yml``).

The pages are written to be read on GitHub: a link is a path in the repository, and an anchor is
what GitHub makes of a heading. The site has the same pages. Four things are translated for it:

- `OUTSIDE`: pages of the repository that are outside ``docs/`` and belong to the site;
- `site_links`: a link to such a page leads to its place in the site. A link to any other file
  outside ``docs/`` becomes plain text, because the site has no such file;
- `github_anchor`: headings get GitHub's anchors. The tests use it, too;
- `site_tables`: GitHub wants ``\|`` for a bar in a table's code. mkdocs would show the backslash.

This module imports mkdocs only when mkdocs calls it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

OUTSIDE: Final = {"scenarios/README.md": "scenario-format.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site by their paths in the repository."""

CODE_OR_LINK: Final = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|\[(?P<label>(?:`[^`\n]+`|[^\]`])*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
"""Code, which contains no links, or a link."""

_DOCS: Final = "docs/"


def github_anchor(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives to a heading. ``separator`` replaces each blank."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def site_links(markdown: str, path: str) -> str:
    """A page of the repository, with its links changed to those of the site.

    Args:
        markdown: the page.
        path: the path of the page in the repository, for example ``docs/tables.md``.
    """
    folder = posixpath.dirname(path)

    def translated(found: re.Match[str]) -> str:
        target = found["target"]
        if found["code"] or "://" in target or target.startswith("#"):
            return found[0]
        file, mark, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(folder, file))
        place = file.removeprefix(_DOCS) if file.startswith(_DOCS) else OUTSIDE.get(file)
        return f"[{found['label']}]({place}{mark}{anchor})" if place else found["label"]

    return CODE_OR_LINK.sub(translated, markdown)


def site_tables(markdown: str) -> str:
    """A page whose tables have plain bars in code, without a backslash."""

    def row(found: re.Match[str]) -> str:
        return re.sub(r"`[^`\n]+`", lambda code: code[0].replace("\\|", "|"), found[0])

    return re.sub(r"^\|.*$", row, markdown, flags=re.MULTILINE)


# --- the hooks ------------------------------------------------------------------------------------


def on_config(config: Any) -> None:
    """Give headings GitHub's anchors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor


def on_files(files: Any, config: Any) -> None:
    """Add the pages of `OUTSIDE`."""
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(root / path)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Translate a page."""
    places = {place: path for path, place in OUTSIDE.items()}
    return site_tables(site_links(markdown, places.get(page.file.src_uri, _DOCS + page.file.src_uri)))
