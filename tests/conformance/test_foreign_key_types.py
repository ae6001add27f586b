"""Foreign keys whose sides have different types: they are built where the target can have them, and
listed with the reason and the statements where it cannot.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import ConflictError
from subscriber.migrate.schema.apply_schema import apply_schema
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.targets import Target
from tests.subscribing import Session
from tests.target_databases import opened

pytestmark = pytest.mark.server

CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (create_tables, enabled = false, create_slot = false, slot_name = none)"
PAIRS = [
    ("bigint", "int", "7"),
    ("int", "bigint", "7"),
    ("smallint", "int", "7"),
    ("numeric(12,2)", "numeric(10,2)", "7.50"),
    ("numeric(10,1)", "numeric(10,2)", "7.5"),
    ("numeric(6,0)", "int", "7"),
    ("text", "varchar(20)", "seven"),
    ("varchar(20)", "text", "seven"),
    ("varchar(300)", "varchar(20)", "seven"),
    ("char(5)", "char(5)", "seven"),
    ("uuid", "uuid", "00000000-0000-0000-0000-000000000007"),
    ("date", "date", "2026-11-27"),
    ("bytea", "bytea", "\\x07"),
]


def subscribed(target: Target, database, folder, *pairs: tuple[str, str]) -> Session:
    """A pair of tables for each pair of types: ``parent0`` and ``child0``, and so on."""
    for number, (parent, child) in enumerate(pairs):
        database.execute(
            f"CREATE TABLE parent{number} (id {parent} PRIMARY KEY); CREATE TABLE child{number}"
            f" (id int PRIMARY KEY, parent {child} CONSTRAINT to_parent{number} REFERENCES parent{number})"
        )
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    return Session(target, database, str(folder / "journal"))


def listed(session: Session):
    return {one.name: one for one in schema_difference(session.target, "s").objects}


def built(session: Session) -> list[tuple[str, str]]:
    """Builds what is built after the copy; returns each name with what was refused."""
    outcomes = apply_schema(session.target, schema_difference(session.target, "s"), "after")
    return [(one.object.name, one.refusal) for one in outcomes]


def test_mariadb_has_the_foreign_keys_of_different_types_and_enforces_them(request, publisher_database, tmp_path):
    """The rows are stored as the subscriber stores them, before the foreign keys are built"""
    with opened("mariadb", request, tmp_path) as target:
        session = subscribed(target, publisher_database, tmp_path, *((parent, child) for parent, child, _ in PAIRS))
        said = "\n".join(session.run(CREATE))
        assert "8 columns have the type of the other side of a foreign key" in said
        with target.begin() as connection:
            for number, (_, _, value) in enumerate(PAIRS):
                literal = f"X'{value[2:]}'" if value.startswith("\\x") else f"'{value}'"
                connection.exec_driver_sql(f"INSERT INTO parent{number} VALUES ({literal})")
                connection.exec_driver_sql(f"INSERT INTO child{number} VALUES (1, {literal})")
        assert sorted(built(session)) == sorted(
            (f"public.child{number}.to_parent{number}", "") for number in range(len(PAIRS))
        )
        assert listed(session) == {}
        for number in range(len(PAIRS)):
            with pytest.raises(ConflictError, match="foreign key"), target.objects.building() as connection:
                connection.exec_driver_sql(f"DELETE FROM parent{number}")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_other_targets_have_foreign_keys_of_different_types_as_they_are(kind, request, publisher_database, tmp_path):
    with opened(kind, request, tmp_path) as target:
        pairs = (("bigint", "int"), ("text", "varchar(20)"))
        session = subscribed(target, publisher_database, tmp_path, *pairs)
        assert "type of the other side" not in "\n".join(session.run(CREATE))
        assert [name for name, refusal in built(session) if refusal] == []
        assert listed(session) == {}


UNLIKE = [
    ("character varying(5)", "character(5)"),
    ("numeric(10,2)", "integer"),
    ("numeric(10,2)", "numeric(10,1)"),
    ("numeric", "bigint"),
    ("timestamp without time zone", "date"),
    ("numeric", "numeric"),  # 1.0 and 1.00 are equal
]


@pytest.mark.parametrize("kind", ["sqlite", "mariadb", "postgresql"])
def test_values_that_are_stored_as_different_texts_have_no_foreign_key(kind, request, publisher_database, tmp_path):
    """The publisher finds them to be equal; an application of the target could insert no row"""
    with opened(kind, request, tmp_path) as target:
        session = subscribed(target, publisher_database, tmp_path, *UNLIKE)
        session.run(CREATE)
        assert [name for name, refusal in built(session) if refusal] == []
        unlike = {number for number, _ in enumerate(UNLIKE)} if kind == "sqlite" else set()
        if kind == "mariadb":  # its DECIMAL writes numbers alike
            unlike = {0, 3, 4, 5}
        left = listed(session)
        assert set(left) == {f"public.child{number}.to_parent{number}" for number in unlike}
        for number in unlike:
            parent, child = UNLIKE[number]
            reason = left[f"public.child{number}.to_parent{number}"].reason
            assert f"equal values of {child} and {parent} may be different texts" in reason


MADE_BY_A_USER = [
    (
        ("bigint", "int"),
        ("BIGINT", "INT DEFAULT 3"),
        "ALTER TABLE `child0` MODIFY COLUMN `parent` bigint(20) DEFAULT 3",
    ),
    (
        ("int", "bigint"),
        ("INT AUTO_INCREMENT", "BIGINT"),
        "ALTER TABLE `parent1` MODIFY COLUMN `id` bigint(20) NOT NULL AUTO_INCREMENT",
    ),
    (
        ("varchar(9)", "varchar(9)"),
        ("VARCHAR(9) COLLATE utf8mb4_nopad_bin", "VARCHAR(9) COLLATE utf8mb4_bin NOT NULL"),
        "ALTER TABLE `child2` MODIFY COLUMN `parent` varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL",
    ),
    (
        ("numeric(9,2)", "numeric(9,2)"),
        ("DECIMAL(9,2)", "DECIMAL(12,2)"),
        "ALTER TABLE `child3` MODIFY COLUMN `parent` decimal(9,2) DEFAULT NULL",
    ),
]


def test_a_foreign_key_of_tables_that_a_user_has_made_is_listed_with_the_statements(
    request, publisher_database, tmp_path
):
    """MariaDB would refuse it with error 1005, or compare the bytes of two decimals"""
    with opened("mariadb", request, tmp_path) as target:
        session = subscribed(target, publisher_database, tmp_path, *(pair for pair, _, _ in MADE_BY_A_USER))
        with target.begin() as connection:
            for number, (_, (parent, child), _) in enumerate(MADE_BY_A_USER):
                for items in (
                    f"parent{number} (id {parent} PRIMARY KEY)",
                    f"child{number} (id INT PRIMARY KEY, parent {child})",
                ):
                    connection.exec_driver_sql(f"CREATE TABLE {items} CHARACTER SET utf8mb4")
        session.run(CREATE)
        found = listed(session)
        for number, (_, _, altered) in enumerate(MADE_BY_A_USER):
            one = found[f"public.child{number}.to_parent{number}"]
            assert one.phase == "manual"
            assert "a foreign key needs the same type, character set and collation" in one.reason
            first, second = one.ddl.split(";\n")
            assert first == altered
            with target.objects.building() as connection:
                connection.exec_driver_sql(first)
                connection.exec_driver_sql(second)
        assert [name for name in listed(session) if "to_parent" in name] == []


def test_names_and_keys_that_are_too_long_for_mariadb_are_shortened_or_listed(request, publisher_database, tmp_path):
    long = "x" * 60
    publisher_database.execute(
        f"CREATE SCHEMA sales; CREATE TABLE sales.t (id int PRIMARY KEY, a text, b text, c text, d text, e text);"
        f"CREATE INDEX {long} ON sales.t (a, b); CREATE INDEX wide ON sales.t (a, b, c, d, e);"
        "CREATE PUBLICATION p FOR TABLE sales.t"
    )
    with opened("mariadb", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        assert built(session) == [(f"sales.t.{long}", "")]
        left = listed(session)
        assert {name: one.reason for name, one in left.items()} == {
            "sales.t.wide": "its columns have up to 3,820 bytes, and 3,072 are possible"
        }
