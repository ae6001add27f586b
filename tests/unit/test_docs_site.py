"""README is short, the links of the pages lead somewhere, and the site has every page."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.markdown import anchors, links
from tools.docs_site import OUTSIDE, github_anchor, site_links, site_tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *OUTSIDE, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
MOST_WORDS = 1500


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_has_a_target(page):
    for link in links((ROOT / page).read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file.read_text()), link


@pytest.mark.parametrize("page", PAGES)
def test_a_list_begins_after_a_blank_line(page):
    """GitHub does not need the line, the site does."""
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = prose.splitlines()
    for before, line in pairwise(lines):
        if re.match(r"(-|\d+\.) ", line):
            assert not before or re.match(r"(-|\d+\.| ) ?", before), line


def test_links_are_found_in_the_documents():
    """A pattern that finds nothing would make the test before this one pass for ever."""
    assert len(links((ROOT / "README.md").read_text())) > 40


# --- the site -------------------------------------------------------------------------------------


def nav_files(entries: list[Any]) -> list[str]:
    """The files that a navigation names, in its order."""
    files: list[str] = []
    for entry in entries:
        for place in entry.values():
            files += [place] if isinstance(place, str) else nav_files(place)
    return files


def test_the_navigation_has_every_page_once_and_nothing_else():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(nav_files(config["nav"])) == sorted({*docs, *OUTSIDE.values()})


def test_the_home_page_leads_to_every_page():
    home = (ROOT / "docs" / "README.md").read_text()
    reached = {link for link in links(site_links(home, "docs/README.md")) if "://" not in link}
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert reached == set(nav_files(config["nav"])) - {"README.md"}


def test_the_site_is_built_strictly():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["strict"] is True
    assert set(config["validation"]["links"].values()) == set(config["validation"]["nav"].values()) == {"warn"}
    assert "search" in config["plugins"]
    assert (ROOT / config["hooks"][0]).exists()
    assert re.search(r"^\t(?:\w+=\w+ )?\$\(BIN\)/mkdocs build --strict", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "site/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize(
    ("page", "link", "translated"),
    [
        ("docs/tables.md", "[types](types.md#values)", "[types](types.md#values)"),
        ("docs/tables.md", "[here](#values)", "[here](#values)"),
        (
            "docs/tables.md",
            "[the manual](https://www.postgresql.org/docs/)",
            "[the manual](https://www.postgresql.org/docs/)",
        ),
        ("docs/scenarios.md", "[format](../scenarios/README.md#nodes)", "[format](scenario-format.md#nodes)"),
        ("scenarios/README.md", "[pages](../docs/scenarios.md)", "[pages](scenarios.md)"),
        ("CHANGELOG.md", "[types](docs/types.md)", "[types](types.md)"),
        ("docs/architecture.md", "[`apply`](../subscriber/apply/__init__.py) does it", "`apply` does it"),
        ("docs/tables.md", "`[a](../b)`", "`[a](../b)`"),
        ("docs/tables.md", "```\n[a](../b)\n```", "```\n[a](../b)\n```"),
    ],
)
def test_relative_links_are_rewritten_for_the_site(page, link, translated):
    assert site_links(link, page) == translated


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What fails, and what then", "what-fails-and-what-then"),
        ("`subscriber run --once`", "subscriber-run---once"),
        ("create_tables", "create_tables"),
    ],
)
def test_the_anchors_of_headings_are_those_of_github(heading, anchor):
    assert github_anchor(heading) == anchor


def test_escaped_bars_in_the_code_of_a_table_are_unescaped():
    page = "| `a \\| b` | c \\| d |\n`e \\| f`"
    assert site_tables(page) == "| `a | b` | c \\| d |\n`e \\| f`"
