"""The limits of each target, on the real databases: what fits is created, and what does not fit is
refused before anything is created.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError
from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import CreateSubscription, parse
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.targets.ddl import create_table
from tests.table_shapes import column_shape, table_shape
from tests.target_databases import opened

pytestmark = pytest.mark.server

TYPES = {"integer": 23, "bigint": 20, "text": 25, "numeric(65,30)": 1700, "date": 1082}
WIDE = """DO $$ BEGIN
  EXECUTE 'CREATE TABLE v70 (id int PRIMARY KEY, ' || (SELECT string_agg(format('c%s varchar(255)', g), ', ') FROM generate_series(1, 70) g) || ')';
  EXECUTE 'CREATE TABLE t500 (id int PRIMARY KEY, ' || (SELECT string_agg(format('c%s text', g), ', ') FROM generate_series(1, 500) g) || ')';
  EXECUTE 'CREATE TABLE i1100 (id int PRIMARY KEY, ' || (SELECT string_agg(format('c%s int', g), ', ') FROM generate_series(1, 1100) g) || ')';
END $$;
CREATE TABLE fine (id int PRIMARY KEY, note text UNIQUE);
"""


def shape_of(number: int, type_name: str, *, nullable: bool = True, key: bool = True) -> PublisherTable:
    """A table with a key and a number of columns of one type."""
    oid = 1043 if type_name.startswith("character varying") else TYPES[type_name]
    columns = [column_shape(f"c{place}", oid, type_name, nullable=nullable) for place in range(number)]
    first = (column_shape("id", 23, "integer", nullable=False),)
    return table_shape("public", "t", (*(first if key else ()), *columns), key=("id",) if key else ())


def keys_of(number: int, type_name: str, *, unique: bool = False) -> PublisherTable:
    """A table with one key of a number of columns."""
    oid = 1043 if type_name.startswith("character varying") else TYPES[type_name]
    columns = tuple(column_shape(f"c{place}", oid, type_name, nullable=unique) for place in range(number))
    names = tuple(column.name for column in columns)
    return table_shape("public", "t", columns, () if unique else names, (UniqueKey(names),) if unique else ())


def created(target, shape: PublisherTable) -> dict[str, str]:
    """Create and drop the table; returns the types of its columns."""
    with target.begin() as connection:
        create_table(target, shape).create(connection)
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
    with target.begin() as connection:
        connection.execute(sa.schema.DropTable(table.clause()))
    return {column.name: column.declared_type for column in table.columns}


def test_what_mariadb_cannot_have_is_said_before_with_all_tables(publisher_database, request, tmp_path):
    """Nothing is created then, not even a table that fits"""
    publisher_database.execute(f"{WIDE}; CREATE PUBLICATION p FOR ALL TABLES")
    options = SubscriptionOptions(create_tables=True)
    with opened("mariadb", request, tmp_path) as target:
        migration = Migration(publisher_database.conninfo, ("p",), options)
        found = list(check_migration(target, migration, Settings(str(tmp_path / "journal"))))
        failed = {one.object: one.message for one in found if one.severity == "FAIL"}
        assert failed == {
            "public.i1100": 'table "public.i1100" cannot be created in MariaDB: it has 1,101 columns, and 1,017 are possible',
            "public.t500": 'table "public.t500" cannot be created in MariaDB: a row of it needs 10,585 bytes of a page, and 8,125 are possible',
        }
        said = [one.message for one in found if one.object == "create_tables"]
        assert said[0] == "2 tables will be created"
        assert any(line.startswith("6 columns have other types, so that a row is not too large:") for line in said)
        assert (
            '1 column of a key has a limited length, and a longer value stops the subscription: "public.fine.note VARCHAR(255)"'
            in said
        )
        create = f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p WITH (create_tables = true)"
        command = parse(create)
        assert isinstance(command, CreateSubscription)
        with pytest.raises(NotSupportedError) as raised:
            run_command(target, command, Settings(str(tmp_path / "journal")), lambda _: None)
        assert raised.value.message == '2 tables cannot be created in MariaDB: "public.i1100", "public.t500"'
        assert "a column list" in str(raised.value.hint)
        shown = target.query("SHOW TABLES").rows
        assert [name for (name,) in shown if not str(name).startswith("subscriber_")] == []
        assert publisher_database.execute("SELECT FROM pg_replication_slots WHERE database = current_database()") == []


def test_columns_of_a_row_that_is_too_large_have_types_that_fit_and_hold_the_longest_values(request, tmp_path):
    with opened("mariadb", request, tmp_path) as target:
        shape = shape_of(70, "character varying(255)")
        new = create_table(target, shape)
        with target.begin() as connection:
            new.create(connection)
            values = ", ".join(["REPEAT('🦆', 255)"] * 70)
            connection.exec_driver_sql(f"INSERT INTO t VALUES (1, {values})")
        assert [one.object for one in new.differences] == ["c64", "c65", "c66", "c67", "c68", "c69"]
        assert (new.differences[0].kind, new.differences[0].instead) == ("row size", "LONGTEXT")


@pytest.mark.parametrize(
    ("number", "type_name", "nullable"),
    [
        (383, "text", True),
        (385, "text", False),
        (997, "bigint", True),
        (1_012, "bigint", False),
        (268, "numeric(65,30)", True),
        (1_016, "integer", True),
        (1_016, "date", True),
    ],
)
def test_as_many_columns_are_created_in_mariadb_as_it_can_have(request, tmp_path, number, type_name, nullable):
    """One more is refused before, and by the server"""
    with opened("mariadb", request, tmp_path) as target:
        assert len(created(target, shape_of(number, type_name, nullable=nullable))) == number + 1
        more = shape_of(number + 1, type_name, nullable=nullable)
        with pytest.raises(NotSupportedError, match="cannot be created in MariaDB"):
            create_table(target, more)
        items = [f"{one.name} {target.ddl.column_type(one.type_oid, one.type_name)}" for one in more.columns]
        items = [f"{one}{'' if nullable else ' NOT NULL'}" for one in items]
        with pytest.raises(sa.exc.OperationalError, match=r"\((1118|1005), "), target.engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE x ({', '.join(items)}, PRIMARY KEY (id))")


@pytest.mark.parametrize(
    ("number", "size", "changed"),
    [
        (32, 63, set()),
        (40, 63, {"varchar(64)"}),
        (250, 63, {"varchar(64)"}),
        (300, 80, {"longtext"}),
        (380, 20, {"varchar(64)", "longtext"}),
    ],
)
def test_short_texts_that_a_page_cannot_have_are_stored_outside_of_it(request, tmp_path, number, size, changed):
    with opened("mariadb", request, tmp_path) as target:
        types = created(target, shape_of(number, f"character varying({size})"))
        assert {one for one in types.values() if one not in ("int(11)", f"varchar({size})")} == changed


@pytest.mark.parametrize(
    ("number", "type_name", "declared"),
    [
        (1, "text", "varchar(255)"),
        (1, "character varying(768)", "varchar(768)"),
        (3, "text", "varchar(255)"),
        (4, "text", "varchar(192)"),
        (32, "text", "varchar(24)"),
        (4, "character varying(300)", "varchar(192)"),
        (32, "bigint", "bigint(20)"),
    ],
)
@pytest.mark.parametrize("unique", [False, True], ids=["key", "unique key"])
def test_a_key_that_is_too_long_in_mariadb_has_shorter_columns(request, tmp_path, number, type_name, declared, unique):
    with opened("mariadb", request, tmp_path) as target:
        shape = keys_of(number, type_name, unique=unique)
        assert set(created(target, shape).values()) == {declared}
        differences = create_table(target, shape).differences
        limited = [one.instead.lower() for one in differences if one.kind == "key length"]
        assert limited == ([] if declared in ("varchar(768)", "bigint(20)") else [declared] * number)


def test_a_key_of_more_columns_than_an_index_of_mariadb_has_is_refused(request, tmp_path):
    with opened("mariadb", request, tmp_path) as target:
        with pytest.raises(NotSupportedError, match="33 columns, and 32 are possible"):
            create_table(target, keys_of(33, "integer"))
        columns = tuple(column_shape(f"c{place}", 23, "integer") for place in range(64))
        keys = tuple(UniqueKey((column.name,)) for column in columns)
        assert len(created(target, table_shape("public", "t", columns, (), keys[:63]))) == 64
        with pytest.raises(NotSupportedError, match="it has 65 keys, and 64 are possible"):
            create_table(target, table_shape("public", "t", columns, ("c0", "c1"), keys))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_other_targets_create_tables_of_as_many_columns_as_postgresql_has(kind, request, tmp_path):
    with opened(kind, request, tmp_path) as target:
        assert len(created(target, shape_of(1_599, "text"))) == 1_600


def test_the_limits_of_sqlite_and_postgresql_are_those_of_the_servers(request, tmp_path):
    for kind, limit in (("sqlite", 2_000), ("postgresql", 1_600)):
        with opened(kind, request, tmp_path) as target:
            assert len(created(target, shape_of(limit - 1, "integer"))) == limit
            with pytest.raises(NotSupportedError, match=f"columns, and {limit:,} are possible"):
                create_table(target, shape_of(limit, "integer"))
            items = ", ".join(f"c{place} integer" for place in range(limit + 1))
            with pytest.raises(sa.exc.SQLAlchemyError), target.engine.begin() as connection:
                connection.exec_driver_sql(f"CREATE TABLE x ({items})")


@pytest.mark.parametrize(
    ("kind", "fits", "refused"),
    [
        ("mariadb", "ö" * 64, ("ö" * 65, "c😀", "c ")),
        ("postgresql", "ö" * 31 + "x", ("ö" * 32,)),
        ("sqlite", "ö" * 500, ()),
        ("duckdb", "ö" * 500, ()),
    ],
)
def test_names_that_a_target_does_not_take_are_refused_before(kind, fits, refused, request, tmp_path):
    """PostgreSQL itself would cut the name of a table that ``map`` names"""
    with opened(kind, request, tmp_path) as target:
        columns = (column_shape("id", 23, "integer", nullable=False), column_shape(fits, 23, "integer"))
        assert set(created(target, table_shape("public", fits, columns, ("id",)))) == {"id", fits}
        for name in refused:
            for shape in (
                table_shape("public", name, columns, ("id",)),
                table_shape("public", "t", (columns[0], column_shape(name, 23, "integer")), ("id",)),
            ):
                with pytest.raises(NotSupportedError, match=f'the name "{name}"'):
                    create_table(target, shape)
