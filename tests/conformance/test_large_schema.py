"""The migration of a large schema: many small tables in several schemas, with partitions, INHERITS,
cycles of foreign keys and functions that call functions, while the application writes.

``make test`` migrates 50 tables, ``make long`` 500.
"""

from __future__ import annotations

import json

import pytest

from tests.application import Application
from tests.migrations import KINDS, SUBSCRIPTION, Migration, accepted, migrating

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

SIZES = [
    pytest.param(
        (kind, tables),
        marks=() if tables == 50 and kind in ("sqlite", "postgresql") else pytest.mark.long,
        id=f"{kind}-{tables}",
    )
    for tables in (50, 500)
    for kind in KINDS
]


@pytest.fixture(params=SIZES)
def migration(request, publisher_database, tmp_path):
    kind, tables = request.param
    with migrating("large", kind, publisher_database, request, tmp_path, tables=tables) as migration:
        yield migration


def create_functions(migration: Migration) -> None:
    """Run what `schema diff` lists of functions, in its order."""
    code, objects = migration.answer("schema", "diff", SUBSCRIPTION)
    assert code == 0
    functions = [one["publisher_ddl"] for one in objects if one["kind"] == "function"]
    with migration.target() as target, target.engine.begin() as connection:
        for ddl in functions:
            connection.execution_options(no_parameters=True).exec_driver_sql(ddl)


def apply_schema(migration: Migration, phase: str) -> None:
    code, outcomes = migration.answer("schema", "apply", f"--{phase}", SUBSCRIPTION)
    assert code == 0, [(one["kind"], one["name"], one["refusal"]) for one in outcomes if one["refusal"]]
    _, left = migration.answer("schema", "diff", SUBSCRIPTION)
    assert [(one["kind"], one["name"]) for one in left if one["phase"] == phase] == []


def test_a_large_schema_is_migrated_while_its_application_writes(migration):
    values = ", unrepresentable_values = null" if migration.kind in ("duckdb", "mariadb") else ""
    migration.create(f"create_tables = true, schema_changes = add_columns{values}")
    if migration.kind == "postgresql":
        create_functions(migration)
    apply_schema(migration, "before")
    with Application(migration.publisher.conninfo, "large") as application:
        migration.runner.start()
        migration.wait_until_ready()
        application.change_schema()
        apply_schema(migration, "after")
        code, report = migration.answer("verify", SUBSCRIPTION)
        assert code == 0, [one for one in report["tables"] if not one["equal"]]
    assert application.transactions > 0
    migration.wait_until_applied()
    for phase in ("before", "after"):  # what the application has added: a default, an index
        apply_schema(migration, phase)
    options = ["--fence", "--verify", *accepted(migration.kind)]
    code, done = migration.answer("cutover", SUBSCRIPTION, *options)
    assert code == 0, json.dumps(done["steps"], indent=1)
    assert [one["status"] for one in done["steps"]] == ["done"] * len(done["steps"])
    assert migration.kind in ("duckdb", "mariadb") or migration.differences() == []
