"""Statements are compiled once for each shape of change, and cached for a while."""

from __future__ import annotations

import pytest

from subscriber.apply.statements import change_statements
from subscriber.apply.statements.change_statements import StatementCache
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.errors import ConflictError
from subscriber.protocol import messages as m
from tests.changes import T, U, delete, insert
from tests.frames import frame
from tests.runs import runs

pytestmark = pytest.mark.usefixtures("tables")


def test_a_statement_is_compiled_once_for_each_shape_of_change(target):
    statements: StatementCache = {}
    changes: list[m.Message] = [
        insert("1", "x", None),
        insert("2", "y", None),
        delete("1", None, None),
        delete("2", None, None),
    ]
    for _ in range(2):
        made = frame([T], changes)
        with target.begin() as connection:
            using = ChangeWriter(target, connection, statements)
            using.open_frame(made)
            assert [list(using.write(run)) for run in runs(made)] == [[], []]
    assert [statement.sql.split()[0] for statement in statements.values()] == ["INSERT", "DELETE"]


def test_the_cache_is_emptied_when_it_is_full(target, monkeypatch):
    """bounded_memory"""
    monkeypatch.setattr(change_statements, "_MOST_STATEMENTS", 2)
    statements: StatementCache = {}
    made = frame([T, U], [insert("1", "x", None), insert("1", "u", into=2), delete("1")])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, statements)
        using.open_frame(made)
        for run in runs(made):
            using.write(run)
    assert [statement.sql.split()[0] for statement in statements.values()] == ["DELETE"]


def test_an_error_of_the_driver_names_columns_and_no_values(target, execute):
    """names_are_data"""
    execute("INSERT INTO t (a) VALUES (1)")
    made = frame([T], [insert("1", "secret", None)])
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        using = ChangeWriter(target, connection, {})
        using.open_frame(made)
        using.write(runs(made)[0])
    assert "secret" not in repr(raised.value)
    assert raised.value.__cause__ is None
