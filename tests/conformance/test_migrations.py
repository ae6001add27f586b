"""Whole migrations: each model of an application into each target, while the application writes and
changes its schema, until it inserts into the target.

::

    CREATE ─▶ schema --before ─▶ run ─▶ schema --after ─▶ verify ─▶ faults, verify, repair ─▶ cutover ─▶ inserts ─▶ finish
              └──────────────────── the application writes ────────────────────────────────┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetUnavailable
from tests.application import MODELS, Application, inserts_into
from tests.migrations import KINDS, SUBSCRIPTION, Migration, accepted, migrating
from tests.waits import wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

OPTIONS: Final = "create_tables = true, schema_changes = add_columns"
CANNOT_HOLD: Final = frozenset({"duckdb", "mariadb"})
"""Targets whose columns cannot hold NaN, and MariaDB's no infinite date."""


SLUG: Final = """
CREATE FUNCTION shop.slug(title text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT trim(both '-' from regexp_replace(lower(title), '[^a-z0-9]+', '-', 'g'))
$$
"""
"""The function of an index of the shop."""


@dataclass(frozen=True)
class Faults:
    """Three faults in rows that the application leaves alone.

    Attributes:
        table: the publisher's name of the table.
        changed: a row, and what is written over it.
        missing: a row that is deleted.
        surplus: a row that is inserted.
        keyless: a table without a key, and a row that is inserted into it.
    """

    table: str
    changed: tuple[Mapping[str, Any], Mapping[str, Any]]
    missing: Mapping[str, Any]
    surplus: Mapping[str, Any]
    keyless: tuple[str, Mapping[str, Any]]


FAULTS: Final = {
    "airline": Faults(
        "airline.parameters",
        ({"name": "overbooking"}, {"value": "broken"}),
        {"name": "empty"},
        {"name": "surplus", "value": "x"},
        ("airline.weather", {"airport": "ZZX", "remark": "surplus"}),
    ),
    "rental": Faults(
        "public.credit_notes",
        ({"number": 201}, {"reason": "broken"}),
        {"number": 202},
        {"number": 900000, "invoice": 1, "reason": "surplus"},
        ("public.till_log", {"store_id": 9, "what": "surplus"}),
    ),
    "shop": Faults(
        "stock.purchase_lines",
        ({"purchase_id": 1}, {"quantity": 77}),
        {"purchase_id": 2},
        {"purchase_id": 3, "product_id": 400, "quantity": 1},
        ("shop.page_views", {"path": "/surplus"}),
    ),
}


def injected(migration: Migration, faults: Faults) -> bool:
    """Write the faults into the target; False while the run has a file of DuckDB open."""
    try:
        _inject(migration, faults)
    except TargetUnavailable:
        return False
    return True


def _inject(migration: Migration, faults: Faults) -> None:
    with migration.target() as target, target.reporting(), target.begin() as connection:
        clause = _clause(target, connection, faults.table)
        found, written = faults.changed
        assert connection.execute(sa.update(clause).where(*_is(clause, found)).values(written)).rowcount in (1, -1)
        assert connection.execute(sa.delete(clause).where(*_is(clause, faults.missing))).rowcount in (1, -1)
        connection.execute(sa.insert(clause).values(faults.surplus).inline())
        keyless, row = faults.keyless
        connection.execute(sa.insert(_clause(target, connection, keyless)).values(row).inline())


def _clause(target, connection, name: str) -> sa.TableClause:
    table = target.shapes.reflect(connection, *name.split("."))
    assert table is not None
    return sa.table(table.name, *(sa.column(one.name) for one in table.columns), schema=table.schema)


def _is(clause: sa.TableClause, row: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    return [clause.c[column] == value for column, value in row.items()]


def verified(migration: Migration, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Run ``subscriber verify``; returns the tables that differ or could not be compared."""
    found, report = migration.answer("verify", SUBSCRIPTION, *arguments)
    different = {one["table"]: one for one in report["tables"] if one["differing"] or not one["equal"]}
    different |= {one["table"]: one for one in report["tables"] if one["only_publisher"] or one["only_target"]}
    assert found == code, json.dumps(different, indent=1)
    return different


def apply_schema(migration: Migration, phase: str) -> None:
    """Run ``subscriber schema apply``; the target refuses nothing, and nothing is left of the
    phase.
    """
    code, outcomes = migration.answer("schema", "apply", f"--{phase}", SUBSCRIPTION)
    assert code == 0, [(one["kind"], one["name"], one["refusal"]) for one in outcomes if one["refusal"]]
    code, left = migration.answer("schema", "diff", SUBSCRIPTION)
    assert [(one["kind"], one["name"]) for one in left if one["phase"] == phase or "surplus" in one["kind"]] == []


@pytest.fixture(params=[f"{model}-{kind}" for model in MODELS for kind in KINDS])
def migration(request, publisher_database, tmp_path):
    model, kind = request.param.split("-")
    with migrating(model, kind, publisher_database, request, tmp_path) as migration:
        yield migration


def test_an_application_is_migrated_while_it_writes(migration):
    options = OPTIONS + (", unrepresentable_values = null" if migration.kind in CANNOT_HOLD else "")
    migration.create(options)
    by_hand(migration)
    apply_schema(migration, "before")
    with Application(migration.publisher.conninfo, migration.model, pause=0.05) as application:
        migration.runner.start()
        migration.wait_until_ready()
        application.change_schema()
        apply_schema(migration, "after")
        assert verified(migration) == {}
        find_and_repair(migration)
        assert application.transactions > 0
    migration.wait_until_applied()
    for phase in ("before", "after"):  # what the application has added: a default, an index
        apply_schema(migration, phase)
    cut_over(migration)
    assert migration.kind in CANNOT_HOLD or migration.differences() == []
    insert_at_the_target(migration)
    migration.call("cutover", SUBSCRIPTION, "--finish")
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert migration.publisher.execute(slots) == [(0,)]
    assert migration.runner.status() == {}


def by_hand(migration: Migration) -> None:
    """Build what ``subscriber schema diff`` leaves to the user, and what other objects need."""
    code, objects = migration.answer("schema", "diff", SUBSCRIPTION)
    assert code == 0
    if (migration.model, migration.kind) == ("shop", "postgresql"):
        assert ("function", "manual") in {(one["kind"], one["phase"]) for one in objects}
        with migration.target() as target, target.engine.begin() as connection:
            connection.exec_driver_sql(SLUG)


def find_and_repair(migration: Migration) -> None:
    """Inject the faults under load: verify finds them and nothing else, and repairs them."""
    faults = FAULTS[migration.model]
    wait_until(lambda: injected(migration, faults))
    expected = {faults.table: (1, 1, 1), faults.keyless[0]: (0, 0, 1)}
    found = verified(migration, code=1)
    counts = {name: (one["differing"], one["only_publisher"], one["only_target"]) for name, one in found.items()}
    assert counts == expected
    repaired = verified(migration, "--repair")
    assert {name: one["repaired"] for name, one in repaired.items()} == {faults.table: 3, faults.keyless[0]: 1}
    assert verified(migration) == {}


def cut_over(migration: Migration) -> None:
    """Rehearse and do the cutover; then the application cannot write at the publisher."""
    options = ["--fence", "--verify", *accepted(migration.kind)]
    code, rehearsal = migration.answer("cutover", SUBSCRIPTION, *options, "--dry-run")
    assert code == 0, json.dumps(rehearsal["steps"], indent=1)
    folder = migration.runner.folder / "reports"
    migration.call("cutover", SUBSCRIPTION, *options, "--report", str(folder))
    assert {path.suffix for path in folder.iterdir()} == {".html", ".json"}
    assert migration.status()["enabled"] is False
    late = Application(migration.publisher.conninfo, migration.model)
    late.start()
    late.join()
    assert late.fenced == 2
    assert late.transactions == 0
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        late.change_schema()


def insert_at_the_target(migration: Migration) -> None:
    """The application's inserts get the next numbers and the defaults."""
    with migration.target() as target:
        for one in inserts_into(target, migration.model):
            assert dict(one.defaults) == dict(one.row.defaults), one.row.table
            if one.row.generated:
                assert one.by_target or migration.kind != "postgresql", one.row.table
                assert one.number is not None
                assert one.number > one.highest_before, one.row.table
