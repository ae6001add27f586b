"""subscription.grammar: commands are understood completely or refused."""

import logging

import pytest

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.subscription_grammar import (
    AlterConnection,
    AlterEnabled,
    AlterOptions,
    AlterOwner,
    AlterPublications,
    AlterSkip,
    CreateSubscription,
    DropSubscription,
    Query,
    RecreateSlot,
    RefreshPublication,
    RefreshSequences,
    RefreshTables,
    RenameSubscription,
    TruncateTables,
    parse,
)
from subscriber.postgres.publication.publication_statements import PublicationCommand, RelationName
from subscriber.postgres.sql.option_list import Option, OptionList


def create(
    tail: str = "PUBLICATION p WITH (copy_data = false)", name: str = "s", conninfo: str = "'c'"
) -> CreateSubscription:
    command = parse(f"CREATE SUBSCRIPTION {name} CONNECTION {conninfo} {tail}")
    assert isinstance(command, CreateSubscription)
    return command


def test_a_subscription_is_created_as_in_the_manual():
    assert parse(
        """CREATE SUBSCRIPTION mysub
             CONNECTION 'host=192.168.1.50 port=5432 user=foo dbname=foodb'
            PUBLICATION mypublication, insert_only WITH (copy_data = false, enabled = false);"""
    ) == CreateSubscription(
        name="mysub",
        conninfo="host=192.168.1.50 port=5432 user=foo dbname=foodb",
        publications=("mypublication", "insert_only"),
        options=SubscriptionOptions(slot_name="mysub", copy_data=False, enabled=False),
    )


def test_whitespace_case_and_comments_do_not_matter():
    sql = "create/**/Subscription s--x\nCONNECTION'c'publication p with(COPY_DATA=false)"
    assert parse(sql) == create()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Foo", "foo"),
        ('"Foo"', "Foo"),
        ('"a""b"', 'a"b'),
        ('"select"', "select"),
        ("connection", "connection"),
        ("publication", "publication"),
        ("int", "int"),
        ("a" * 63, "a" * 63),
        ("a" * 64, "a" * 63),
        ('"' + "é" * 32 + '"', "é" * 31),
    ],
)
def test_a_name_is_folded_unless_quoted_and_has_63_bytes(written, name):
    """C53: the slot has the subscription's name unless told otherwise."""
    found = create(f"PUBLICATION {written} WITH (copy_data = false)", name=written)
    assert (found.name, found.publications, found.options.slot_name) == (name, (name,), name)


def test_a_name_that_is_cut_is_noticed_as_in_postgresql(caplog):
    with caplog.at_level(logging.WARNING):
        create(name="a" * 64)
    assert f'identifier "{"a" * 64}" will be truncated to "{"a" * 63}"' in caplog.text


@pytest.mark.parametrize(
    ("conninfo", "meaning"),
    [("'it''s'", "it's"), (r"E'a\'b'", "a'b"), ("$$a'b$$", "a'b"), ("'a'\n'b'", "ab"), ("''", "")],
)
def test_the_connection_string_is_any_string_constant(conninfo, meaning):
    assert create(conninfo=conninfo).conninfo == meaning


def test_an_option_needs_no_value_and_takes_words_strings_and_numbers():
    tail = 'PUBLICATION p WITH (copy_data = 0, two_phase, streaming = \'on\', "origin" = NONE, slot_name = "x", enabled = +1)'
    assert create(tail).options == SubscriptionOptions(
        slot_name="x", copy_data=False, two_phase=True, streaming="on", origin="none"
    )


def test_a_reserved_word_may_be_an_options_value():
    assert create("PUBLICATION p WITH (copy_data = FALSE, two_phase = ON, origin = ANY)").options.two_phase


def test_slot_name_none_is_no_slot():
    tail = "PUBLICATION p WITH (copy_data = false, slot_name = NONE, enabled = false, create_slot = false)"
    assert create(tail).options.slot_name is None


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("CONNECTION 'c'", AlterConnection("s", "c")),
        ("SERVER pub", AlterConnection("s", "", "pub")),
        ("SET PUBLICATION p, q", AlterPublications("s", "set", ("p", "q"), OptionList())),
        (
            'ADD PUBLICATION "P" WITH (refresh = off, copy_data)',
            AlterPublications(
                "s", "add", ("P",), OptionList((Option("refresh", "off", 47), Option("copy_data", None, 62)))
            ),
        ),
        ("DROP PUBLICATION p", AlterPublications("s", "drop", ("p",), OptionList())),
        ("REFRESH PUBLICATION", RefreshPublication("s", OptionList())),
        (
            "REFRESH PUBLICATION WITH (copy_data = 0)",
            RefreshPublication("s", OptionList((Option("copy_data", 0, 47),))),
        ),
        ("REFRESH SEQUENCES", RefreshSequences("s")),
        ("REFRESH TABLE t", RefreshTables("s", (RelationName("t"),))),
        (
            'REFRESH TABLE a.T, "A"."t.u"',
            RefreshTables("s", (RelationName("t", "a"), RelationName("t.u", "A"))),
        ),
        ("RECREATE SLOT", RecreateSlot("s", OptionList())),
        (
            "recreate slot with (copy_data = false)",
            RecreateSlot("s", OptionList((Option("copy_data", "false", 41),))),
        ),
        ("ENABLE", AlterEnabled("s", enabled=True)),
        ("disable", AlterEnabled("s", enabled=False)),
        ("SET (slot_name = NONE)", AlterOptions("s", OptionList((Option("slot_name", "none", 26),)))),
        ("SKIP (lsn = '0/1')", AlterSkip("s", OptionList((Option("lsn", "0/1", 27),)))),
        ("OWNER TO Me", AlterOwner("s", "me")),
        ("OWNER TO left", AlterOwner("s", "left")),
        ("OWNER TO Current_User", AlterOwner("s", None)),
        ("RENAME TO enable", RenameSubscription("s", "enable")),
    ],
)
def test_a_subscription_is_altered(sql, command):
    assert parse(f"ALTER SUBSCRIPTION s {sql};") == command


def test_options_of_alter_stay_as_written_because_the_subscription_is_looked_for_first():
    """C54: even one that nothing knows."""
    assert parse("ALTER SUBSCRIPTION s SET (nope, nope = 1)") == AlterOptions(
        "s", OptionList((Option("nope", None, 26), Option("nope", 1, 32)))
    )


def test_an_altered_connection_is_not_shown():
    for sql in ("CONNECTION 'password=hunter2'", "SET (slot_name = NONE) /* hunter2 */"):
        assert "hunter2" not in repr(parse(f"ALTER SUBSCRIPTION s {sql}"))


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("DROP SUBSCRIPTION s", DropSubscription("s", if_exists=False, cascade=False)),
        ("drop subscription if exists S;", DropSubscription("s", if_exists=True, cascade=False)),
        ('DROP SUBSCRIPTION "S" CASCADE', DropSubscription("S", if_exists=False, cascade=True)),
        ("DROP SUBSCRIPTION s RESTRICT;;", DropSubscription("s", if_exists=False, cascade=False)),
        ("DROP SUBSCRIPTION if", DropSubscription("if", if_exists=False, cascade=False)),
        ("DROP SUBSCRIPTION cascade cascade", DropSubscription("cascade", if_exists=False, cascade=True)),
    ],
)
def test_a_subscription_is_dropped(sql, command):
    assert parse(sql) == command


@pytest.mark.parametrize(
    ("sql", "tables", "restart_identity"),
    [
        ("TRUNCATE t", (RelationName("t"),), False),
        ('truncate table a.T, "B";', (RelationName("t", "a"), RelationName("B")), False),
        ("TRUNCATE t RESTART IDENTITY RESTRICT", (RelationName("t"),), True),
        ("TRUNCATE TABLE t CONTINUE IDENTITY", (RelationName("t"),), False),
    ],
)
def test_tables_are_truncated(sql, tables, restart_identity):
    assert parse(sql) == TruncateTables(tables, restart_identity)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("TRUNCATE t CASCADE", "TRUNCATE ... CASCADE is not supported"),
        ("TRUNCATE ONLY t", "TRUNCATE ONLY is not supported"),
    ],
)
def test_a_form_of_truncate_that_has_no_meaning_here_is_refused_with_the_reason(sql, message):
    with pytest.raises(NotSupportedError, match=message) as refused:
        parse(sql)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("sql", "near", "keyword"),
    [
        ("CREATE SUBSCRIPTON s CONNECTION 'c' PUBLICATION p", "SUBSCRIPTON", "SUBSCRIPTION"),
        ("CRAETE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p", "CRAETE", "CREATE"),
        ("create subscription s conection 'c' publication p", "conection", "CONNECTION"),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WTIH (binary)", "WTIH", "WITH"),
        ("ALTER SUBSCRIPTION s REFERSH PUBLICATION", "REFERSH", "REFRESH"),
        ("ALTER SUBSCRIPTION s REFRESH PUBLICATON", "PUBLICATON", "PUBLICATION"),
        ("ALTER SUBSCRIPTION s RECREATE SLOTS", "SLOTS", "SLOT"),
        ("DROP SUBSCRIPTION IF EXIST s", "EXIST", "EXISTS"),
        ("CREATE PUBLICATION p FOR ALL TABELS", "TABELS", "TABLES"),
        ("ALTER PUBLICATION p RENAM TO q", "RENAM", "RENAME"),
        ("TRUNCTE t", "TRUNCTE", "TRUNCATE"),
        ("SELCT 1", "SELCT", "SELECT"),
    ],
)
def test_a_misspelt_keyword_is_postgresqls_syntax_error_with_a_suggestion(sql, near, keyword):
    with pytest.raises(SQLSyntaxError) as refused:
        parse(sql)
    error = refused.value
    assert error.message == f'syntax error at or near "{near}"'
    assert error.position == sql.index(near) + 1
    assert error.hint == f'Perhaps you meant the keyword "{keyword}".'


@pytest.mark.parametrize("sql", ["CREATE TABLE t (a int)", "VACUUM", "DROP SCHEMA s", "create"])
def test_a_command_of_another_kind_is_no_misspelt_one(sql):
    with pytest.raises(NotSupportedError, match=r"^unsupported command"):
        parse(sql)


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (copy_dat = false)", '"copy_data"'),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (\"Enabled\" = false)", '"enabled"'),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (speed = 1)", None),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(sql, hint):
    with pytest.raises(SQLSyntaxError, match=r"^unrecognized subscription parameter") as refused:
        parse(sql)
    assert refused.value.hint == (None if hint is None else f"Perhaps you meant the option {hint}.")


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("SELECT 1", "SELECT 1"),
        (" select a.b, ';' from [t]; -- x", "select a.b, ';' from [t]"),
        ('/* x */ SELECT "A" FROM t WHERE a = $1 AND 1_000 > 1e9;;', 'SELECT "A" FROM t WHERE a = $1 AND 1_000 > 1e9'),
    ],
)
def test_a_query_passes_as_it_is(sql, query):
    assert parse(sql) == Query(query)


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "DROP SUBSCRIPTION a; DROP SUBSCRIPTION b;"])
def test_one_command_at_a_time(sql):
    with pytest.raises(SQLSyntaxError, match=r"^cannot insert multiple commands into a prepared statement$"):
        parse(sql)


@pytest.mark.parametrize(
    ("sql", "near", "character"),
    [
        ("CREATE SUBSCRIPTION", None, 20),
        ("CREATE SUBSCRIPTION s  \n", None, 22),
        ("CREATE SUBSCRIPTION;", ";", 20),
        ("CREATE SUBSCRIPTION select CONNECTION 'c'", "select", 21),
        ("CREATE SUBSCRIPTION Left CONNECTION 'c'", "Left", 21),
        ("CREATE SUBSCRIPTION a.b CONNECTION 'c'", ".", 22),
        ("CREATE SUBSCRIPTION a-b CONNECTION 'c'", "-", 22),
        ("CREATE SUBSCRIPTION s PUBLICATION p", "PUBLICATION", 23),
        ("CREATE SUBSCRIPTION s CONNECTION foo PUBLICATION p", "foo", 34),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION", None, 49),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p,", None, 52),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p q", "q", 52),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH", None, 56),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH ()", ")", 58),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a", None, 59),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a = )", ")", 62),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a.b)", ".", 59),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a = b c)", "c", 64),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a = values)", "values", 62),
        ("CREATE SUBSCRIPTION s CONNECTION 'c' PUBLICATION p WITH (a) x", "x", 61),
        ("DROP SUBSCRIPTION", None, 18),
        ("DROP SUBSCRIPTION IF EXISTS", None, 28),
        ("DROP SUBSCRIPTION a, b", ",", 20),
        ("DROP SUBSCRIPTION a CASCADE RESTRICT", "RESTRICT", 29),
        ("ALTER SUBSCRIPTION", None, 19),
        ("ALTER SUBSCRIPTION s", None, 21),
        ("ALTER SUBSCRIPTION s FOO", "FOO", 22),
        ("ALTER SUBSCRIPTION s SET foo", "foo", 26),
        ("", None, 1),
        (";", ";", 1),
    ],
)
def test_a_syntax_error_has_postgresqls_text_and_a_position(sql, near, character):
    with pytest.raises(SQLSyntaxError) as caught:
        parse(sql)
    assert caught.value.message == (
        "syntax error at end of input" if near is None else f'syntax error at or near "{near}"'
    )
    assert caught.value.sqlstate == "42601"
    assert f"At character {character} (" in caught.value.report()


def test_an_empty_name_is_refused():
    with pytest.raises(SQLSyntaxError) as caught:
        create(name='""')
    assert caught.value.message == 'zero-length delimited identifier at or near """"'


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SUBSCRIPTION s CONNECTION 'c' 'password=hunter2' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION c 'password=hunter2",
        "CREATE SUBSCRIPTION 'password=hunter2'",
        "CREATE SUBSCRIPTION s CONNECTION 'password=hunter2'",
        "CREATE SUBSCRIPTION s CONNECTION 'password=hunter2' PUBLICATION p WITH (binary = 5)",
        "'password=hunter2'",
    ],
)
def test_no_error_shows_a_string_constant(sql):
    """Invariant names_are_data; PostgreSQL itself would print it."""
    with pytest.raises(UsageError) as caught:
        parse(sql)
    assert "hunter2" not in caught.value.report()


def test_a_command_does_not_show_its_connection_string():
    assert "hunter2" not in repr(create(conninfo="'password=hunter2'"))


@pytest.mark.parametrize(
    "sql", ["CREATE PUBLICATION p FOR TABLE t WHERE (a > 1)", "ALTER PUBLICATION p ADD TABLE t", "DROP PUBLICATION p"]
)
def test_commands_of_publications_are_read_by_their_own_grammar(sql):
    assert isinstance(parse(sql), PublicationCommand)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE t (a int)",
        "CREATE",
        "WITH x AS (DELETE FROM t) SELECT 1",
        "EXPLAIN SELECT 1",
        "1",
        '"select" 1',
    ],
)
def test_everything_else_is_refused_with_what_is_understood(sql):
    with pytest.raises(NotSupportedError) as caught:
        parse(sql)
    assert (
        caught.value.hint
        == "The supported commands are CREATE, ALTER and DROP of SUBSCRIPTION, PUBLICATION, SERVER and USER MAPPING, TRUNCATE,"
        " and SELECT."
    )


def test_a_server_stands_in_the_place_of_a_connection_string():
    """PostgreSQL 19"""
    command = parse("CREATE SUBSCRIPTION s SERVER Pub PUBLICATION p")
    assert isinstance(command, CreateSubscription)
    assert (command.server, command.conninfo) == ("pub", "")
    with pytest.raises(SQLSyntaxError, match='syntax error at or near "CONNECTION"'):
        parse("CREATE SUBSCRIPTION s SERVER pub CONNECTION 'dbname=x' PUBLICATION p")


def test_a_password_of_a_user_mapping_is_not_in_the_commands_text():
    """names_are_data"""
    assert "hush" not in repr(parse("CREATE USER MAPPING FOR USER SERVER s OPTIONS (password 'hush')"))
    assert "hush" not in repr(parse("ALTER USER MAPPING FOR USER SERVER s OPTIONS (SET password 'hush')"))
