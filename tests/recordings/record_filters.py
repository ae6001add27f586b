"""Records PostgreSQL 18's answers to row filters that are made from its catalogs.

    python -m tests.recordings.record_filters      (a minute or two)

``row-filters-pg18.json.gz`` holds the publisher's tables as a carrier keeps them, the rows of the
sample table as text, and for each filter the server's answer. One expression is kept for every
operator, function and cast that the subscriber computes, the one with the most different values,
and some hundred nested ones. ``tests/unit/postgres/expressions/test_recorded_answers.py`` compares.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

import psycopg

from subscriber.postgres.schema.publisher_tables import to_json
from subscriber.testing.servers.open_servers import open_postgresql
from tests.filter_answers import Answer, OfCatalog

FILE: Final = Path(__file__).parent / "row-filters-pg18.json.gz"
SEED: Final = 18
NESTED: Final = 500
_LONGEST: Final = 2_000


def main() -> None:
    """Ask the server and write the file."""
    with open_postgresql(18) as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
        both = OfCatalog(connection, Random(SEED))
        kept: dict[str, Answer] = {}
        for entry in both.entries:
            if entry.is_immutable and entry.is_computed:
                text, answer = _most_telling(both.server_answers(list(both.writer.calls(entry))))
                kept[text] = answer
        kept |= dict(both.server_answers([both.writer.nested() for _ in range(NESTED)]))
        recorded = {
            "tables": json.loads(to_json(both.ours.tables)),
            "columns": {name: values.to_pylist() for name, values in both.ours.columns.items()},
            "answers": [[text, answer.canonical, *answer.rows] for text, answer in kept.items() if _is_short(answer)],
        }
    lines = json.dumps(recorded, ensure_ascii=True, separators=(",", ":"))
    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        file.write(lines.encode())


def _most_telling(answers: Iterable[tuple[str, Answer]]) -> tuple[str, Answer]:
    return max(answers, key=lambda one: len({value for value in one[1].rows if not (value or "").startswith("ERROR")}))


def _is_short(answer: Answer) -> bool:
    return sum(len(value or "") for value in answer.rows) < _LONGEST


if __name__ == "__main__":
    main()
