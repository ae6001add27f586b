"""The initial copy: the target's table, and how an error is worded. Copies from a publisher are
tested in tests/conformance/test_copy.py.
"""

from __future__ import annotations

import pytest

from subscriber import catalog
from subscriber.catalog import SchemaChanges
from subscriber.errors import ConflictError, TargetRelationError
from subscriber.pipeline.copy import CopySource, _local_relation, _with_context
from subscriber.schema.relation_names import parse_names
from subscriber.targets import Target, open_target
from tests.frames import relation

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        catalog.ensure_catalog(opened.engine)
        with opened.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE kept (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened


def source(**options: object) -> CopySource:
    return CopySource(
        conninfo="password=hush",
        subscription="s",
        publications=("p",),
        schema="public",
        table="t",
        snapshot="00000003-1",
        files=(),
        **options,  # type: ignore[arg-type]
    )


def columns_of(target: Target, table: str) -> list[str]:
    with target.engine.connect() as connection:
        reflected = target.shapes.reflect(connection, "public", table)
    assert reflected is not None
    return [column.name for column in reflected.columns]


def test_a_column_that_the_target_does_not_have_is_an_error(target):
    """D10: as in the stream."""
    with pytest.raises(TargetRelationError, match="b"):
        _local_relation(source(), target, T)
    assert columns_of(target, "t") == ["a"]


def test_a_missing_column_is_added_when_the_subscription_asks_for_that(target, caplog):
    changes = SchemaChanges(1, "s")
    with caplog.at_level("INFO"):
        local = _local_relation(source(add_columns=target.begin, changes=changes), target, T)
    assert [column.name for column in local.columns] == ["a", "b"]
    assert columns_of(target, "t") == ["a", "b"]
    assert "ADD COLUMN" in caplog.text


def test_the_table_of_the_map_is_filled(target):
    local = _local_relation(source(names=parse_names("public.t => public.kept")), target, T)
    assert local.table.name == "kept"


def test_an_error_names_the_table_and_the_column_as_postgresql_does():
    error = _with_context(ConflictError("out of range", relation="public.t", column="a"), None)
    assert error.context == 'initial copy of table "public.t", column "a"'
    assert _with_context(ConflictError("away", relation="public.t"), None).context == 'initial copy of table "public.t"'


def test_an_error_that_has_a_context_keeps_it():
    error = ConflictError("out of range", relation="public.t", context="line 3")
    assert _with_context(error, None).context == "line 3"


def test_no_password_is_in_the_repr_of_a_copy():
    """names_are_data"""
    assert "hush" not in repr(source())
