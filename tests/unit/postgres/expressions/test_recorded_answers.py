"""Row filters beside the recorded answers of PostgreSQL 18: acceptance, canonical text, values.

``tests/recordings/record_filters.py`` made the file and says how. The conformance tests ask a
running server, with other rows and other expressions.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from subscriber.postgres.schema.publisher_tables import from_json
from tests.filter_answers import Answer, OurAnswers

FILE = Path(__file__).parents[3] / "recordings" / "row-filters-pg18.json.gz"
PARTS = 12


@pytest.fixture(scope="module")
def recorded():
    return json.loads(gzip.decompress(FILE.read_bytes()))


@pytest.fixture(scope="module")
def ours(recorded):
    tables = from_json(json.dumps(recorded["tables"]))
    columns = {name: pa.array(values, pa.string()) for name, values in recorded["columns"].items()}
    rows = len(next(iter(columns.values())))
    return OurAnswers(tables.tables["public", "sample"], tables, columns, rows)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_filter_has_the_answer_of_the_server(recorded, ours, part):
    """B11, B23-B28."""
    before = ours.compared
    differences = [
        difference
        for text, canonical, *rows in recorded["answers"][part::PARTS]
        for difference in ours.differences_from(Answer(canonical, tuple(rows)), text)
    ]
    assert not differences, "\n".join(differences[:20])
    assert ours.compared - before > 1_000


def test_a_wrong_answer_is_a_difference(recorded, ours):
    """The comparison itself can fail."""
    text, canonical, *rows = next(one for one in recorded["answers"] if len(set(one[2:])) > 2)
    wrong = Answer(canonical, ("something else", *rows[1:]))
    assert list(ours.differences_from(wrong, text))
    assert list(ours.differences_from(Answer("something else", tuple(rows)), text))
