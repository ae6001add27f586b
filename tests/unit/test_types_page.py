"""docs/types.md says what the targets do."""

from __future__ import annotations

import re
from pathlib import Path

from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from tools.types_page import types_page

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text()


def test_the_page_is_that_of_the_code():
    assert types_page() == PAGE, "run `make docs`"


def test_every_built_in_type_has_its_line():
    lines = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert {type_name(oid) for oid in BUILT_IN_TYPES - ELEMENT_TYPES.keys()} <= set(lines)


def test_every_note_is_referred_to():
    for section in PAGE.split("\n## ")[1:]:
        defined = set(re.findall(r"^(\d+)\. ", section, re.MULTILINE))
        assert set(re.findall(r" \((\d+)\)", section)) == defined
