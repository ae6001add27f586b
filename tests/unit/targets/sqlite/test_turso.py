"""What differs in Turso: the texts of its errors, and the text of its tables."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import (
    ConflictError,
    SubscriberError,
    TargetError,
    TargetUnavailable,
    UnsupportedValue,
    UsageError,
)
from subscriber.targets import open_target
from subscriber.targets.sqlite.create_table_text import declared_sizes
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.transactions import SQLiteFacts, facts_of, learn


class TextError(Exception):
    """A driver's error that has only a text."""


@pytest.mark.parametrize(
    ("text", "kind", "sqlstate"),
    [
        ("UNIQUE constraint failed: t.a", ConflictError, "23505"),
        ("NOT NULL constraint failed: t.a", ConflictError, "23502"),
        ("CHECK constraint failed: a > 0", ConflictError, "23514"),
        ("FOREIGN KEY constraint failed", ConflictError, "23503"),
        ("cannot store TEXT value in int column t.a (19)", UnsupportedValue, "22000"),
        ("database is locked", TargetUnavailable, None),
        ("Locking error: Failed locking file 'x.db'. File is locked by another process", TargetUnavailable, None),
        ("Parse error: no such table: t", TargetError, "42000"),
        ("a text of a trigger with a value: 4711", TargetError, None),
    ],
)
def test_an_error_is_recognized_by_its_text(text, kind, sqlstate):
    error: SubscriberError = SQLiteErrors("x.db", TextError).translate_driver(TextError(text))
    assert type(error) is kind
    assert sqlstate in (None, error.sqlstate)
    assert "4711" not in error.report()


def test_the_facts_of_sqlite_are_those_before_they_are_asked_for():
    engine = sa.create_engine("sqlite://")
    assert facts_of(engine.dialect) == SQLiteFacts() == learn(engine.dialect)


def test_sizes_are_read_from_the_statement():
    statement = (
        'CREATE TABLE t ("a b" NUMERIC_TEXT (10, 2), b CHARACTER VARYING(20) NOT NULL, c INT CHECK (c > 0),'
        " d TEXT DEFAULT (1), PRIMARY KEY (c))"
    )
    assert declared_sizes(statement) == {"a b": "(10,2)", "b": "(20)"}


def test_options_of_a_url_are_refused():
    pytest.importorskip("turso")
    with pytest.raises(UsageError, match="has options"):
        open_target("sqlite+turso:////tmp/x.db?experimental_features=mvcc")


def test_what_turso_lacks_is_known_before_it_is_used(tmp_path):
    pytest.importorskip("turso")
    with open_target(f"sqlite+turso:///{tmp_path / 'x.db'}") as target:
        facts = facts_of(target.engine.dialect)
        assert (facts.attaches, facts.lower_case_tables, facts.shows_sizes) == (False, True, False)
        assert (facts.database, facts.generates) == ("Turso", False)
        assert (target.capabilities.database, target.capabilities.stored_columns) == ("Turso", False)
        assert target.ddl.qualified("public", "Users") == (None, "users")
        reason = target.capabilities.limits.obstacle_of_name('a"b', is_table=True)
        assert (reason is None) is facts.finds_quotes
