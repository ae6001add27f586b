from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.errors import ConflictError, TargetError, TargetUnavailable
from subscriber.targets import TargetColumn
from subscriber.targets.generic.target import open_generic


@pytest.fixture
def target(tmp_path):
    """SQLite, as a database of which only SQLAlchemy knows something."""
    with open_generic(sa.make_url(f"sqlite:///{tmp_path / 't.db'}")) as opened:
        yield opened


def run(target, sql: str) -> None:
    with target.begin() as connection:
        connection.exec_driver_sql(sql)


def test_the_inspector_tells_the_shape(target):
    run(target, "CREATE TABLE t (a INTEGER, b TEXT NOT NULL, g INT GENERATED ALWAYS AS (a) STORED, PRIMARY KEY (a, b))")
    run(target, "CREATE VIEW v AS SELECT * FROM t")
    with target.begin() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        assert table.key == ("a", "b")
        assert [(c.name, c.nullable, c.generated) for c in table.columns][1:] == [
            ("b", False, False),
            ("g", True, True),
        ]
        assert target.shapes.reflect(connection, "public", "v").kind == "view"
        assert target.shapes.reflect(connection, "public", "absent") is None


def test_values_are_pythons(target):
    assert target.values.bind_values(23, TargetColumn("a", "", ""), pa.array([1, None])) == [1, None]


def test_the_drivers_errors_lose_their_text(target):
    """names_are_data"""
    run(target, "CREATE TABLE t (a CHECK (a <> 'secret'))")
    with pytest.raises(ConflictError) as raised:
        run(target, "INSERT INTO t VALUES ('secret')")
    assert raised.value.message == "a constraint of the target forbids the change (IntegrityError)"
    with pytest.raises(TargetUnavailable, match="OperationalError"):
        run(target, "SELECT * FROM missing")
    with pytest.raises(TargetError, match="ResourceClosedError"), target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t").all()
