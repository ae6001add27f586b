"""docs/row-filters.md says what the registry has."""

from __future__ import annotations

from pathlib import Path

from tools.row_filters_page import row_filters_page

PAGE = Path(__file__).parents[2] / "docs" / "row-filters.md"


def test_the_page_is_the_registrys():
    assert PAGE.read_text() == row_filters_page(), "run `make docs`"
