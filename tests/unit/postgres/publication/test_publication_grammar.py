"""publication.grammar: commands as data. Error texts are compared with the server's in
tests/conformance/test_publication_commands.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.commands.subscription_grammar import parse
from subscriber.postgres.publication.publication_statements import (
    AllObjects,
    AlterPublicationAll,
    AlterPublicationObjects,
    AlterPublicationOptions,
    AlterPublicationOwner,
    CreatePublication,
    DropPublication,
    Filter,
    PublicationCommand,
    RelationName,
    RenamePublication,
    SchemaMember,
    TableObject,
)
from subscriber.postgres.sql.option_list import Option, OptionList


def table(name: str, schema: str | None = None, *, only: bool = False, database: str | None = None) -> RelationName:
    return RelationName(name, schema, database, only)


COMMANDS: list[tuple[str, PublicationCommand]] = [
    ("CREATE PUBLICATION p", CreatePublication("p")),
    ('create publication "P" FOR all Tables;', CreatePublication("P", everything=AllObjects(tables=True))),
    ("CREATE PUBLICATION tables FOR TABLE tables", CreatePublication("tables", (TableObject(table("tables")),))),
    (
        'CREATE PUBLICATION p FOR TABLE a, ONLY s.b, ONLY (c), d *, db.s."E"',
        CreatePublication(
            "p",
            (
                TableObject(table("a")),
                TableObject(table("b", "s", only=True)),
                TableObject(table("c", only=True)),
                TableObject(table("d")),
                TableObject(table("E", "s", database="db")),
            ),
        ),
    ),
    (
        """CREATE PUBLICATION p FOR TABLE t (b, a) WHERE (a > 1), ONLY u WHERE ((x IN (1, 2)) ),
           TABLES IN SCHEMA s, r, CURRENT_SCHEMA, TABLES IN SCHEMA CURRENT_SCHEMA, TABLE v""",
        CreatePublication(
            "p",
            (
                TableObject(table("t"), ("b", "a"), Filter("a > 1")),
                TableObject(table("u", only=True), None, Filter("(x IN (1, 2))")),
                *(SchemaMember(name) for name in ("s", "r", None, None)),
                TableObject(table("v")),
            ),
        ),
    ),
    *(
        (
            f"CREATE PUBLICATION p FOR ALL TABLES EXCEPT {clause}",
            CreatePublication(
                "p", everything=AllObjects(tables=True, excepted=(table("a"), table("b", "s", only=True)))
            ),
        )
        for clause in ("(TABLE a, ONLY s.b)", "(TABLE a *, TABLE ONLY (s.b))")
    ),
    ("CREATE PUBLICATION p FOR ALL SEQUENCES", CreatePublication("p", everything=AllObjects(sequences=True))),
    *(
        (f"ALTER PUBLICATION p SET {clause}", AlterPublicationAll("p", AllObjects(True, (table("a"),), True)))
        for clause in ("ALL TABLES EXCEPT (TABLE a), ALL SEQUENCES", "ALL SEQUENCES, ALL TABLES EXCEPT (TABLE a)")
    ),
    (
        "ALTER PUBLICATION p SET (publish = 'insert', publish_via_partition_root)",
        AlterPublicationOptions(
            "p", OptionList((Option("publish", "insert", 25), Option("publish_via_partition_root", None, 45)))
        ),
    ),
    *(
        (
            f"ALTER PUBLICATION p {action} TABLE t, TABLES IN SCHEMA s",
            AlterPublicationObjects("p", action, (TableObject(table("t")), SchemaMember("s"))),
        )
        for action in ("add", "set", "drop")
    ),
    ("ALTER PUBLICATION p OWNER TO me", AlterPublicationOwner("p", "me")),
    ("ALTER PUBLICATION p OWNER TO current_role", AlterPublicationOwner("p", None)),
    ("ALTER PUBLICATION p RENAME TO q", RenamePublication("p", "q")),
    ("DROP PUBLICATION p", DropPublication(("p",), if_exists=False)),
    ("DROP PUBLICATION IF EXISTS p, q RESTRICT", DropPublication(("p", "q"), if_exists=True)),
]


@pytest.mark.parametrize(("sql", "meant"), COMMANDS, ids=[sql for sql, _ in COMMANDS])
def test_a_command_means(sql, meant):
    """B6, B30, B31, B37, B38, B42"""
    assert parse(sql) == meant


@pytest.mark.parametrize(
    "written",
    [
        "a = ')' AND b = $$)$$ AND \"c)\" > 0",
        "a /* ) */ > 1 -- )\n AND (b)",
        "(a)::int[] @> ARRAY[1, (2)]",
        r"a ->> 'b' ~ E'\\)' OR a ? 'x' OR x'1F' = b'1'",
    ],
)
def test_a_filter_is_kept_as_it_was_written(written):
    sql = f"CREATE PUBLICATION p FOR TABLE t WHERE (\n {written} ) WITH (publish = 'insert')"
    command = parse(sql)
    assert isinstance(command, CreatePublication)
    (member,) = command.objects
    assert isinstance(member, TableObject)
    assert member.where is not None
    assert member.where.text == written
    assert sql[member.where.position :].startswith(written)


@pytest.mark.parametrize(
    ("clause", "near"),
    [
        ("EXCEPT (a)", "a"),
        ("EXCEPT (TABLES a)", "TABLES"),
        ("EXCEPT (TABLE a (b))", "("),
        ("EXCEPT (TABLE a WHERE (b))", "WHERE"),
        ("EXCEPT TABLE a", "TABLE"),
        ("EXCEPT TABLE (a)", "TABLE"),
        ("EXCEPT (TABLE)", ")"),
        ("EXCEPT (TABLE a, TABLES IN SCHEMA b)", "IN"),
        (", TABLE a", "TABLE"),
        (", ALL SCHEMAS", "SCHEMAS"),
    ],
)
def test_an_exception_that_is_none_is_a_syntax_error(clause, near):
    """B6"""
    with pytest.raises(SQLSyntaxError) as caught:
        parse(f"CREATE PUBLICATION p FOR ALL TABLES {clause}")
    assert caught.value.message == f'syntax error at or near "{near}"'


@pytest.mark.parametrize("kind", ["TABLES", "SEQUENCES"])
def test_all_objects_of_a_kind_are_named_once(kind):
    with pytest.raises(SQLSyntaxError) as caught:
        parse(f"ALTER PUBLICATION p SET ALL {kind}, ALL {kind}")
    assert caught.value.message == "invalid publication object list"
    assert caught.value.detail == f"ALL {kind} can be specified only once."
    assert caught.value.position == len(f"ALTER PUBLICATION p SET ALL {kind}, A")
