"""From the text of a filter to its tree: what the server says (rules B23-B29) and what is used of
the table.

Acceptance and canonical text of a thousand filters are compared with servers in
``tests/conformance/test_row_filter_expressions.py``; here is what must hold where there is no
server.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from subscriber.errors import NotSupportedError, SQLSyntaxError, SubscriberError
from subscriber.filters.analyze import tree
from subscriber.filters.builtins import catalog_of
from subscriber.filters.check import analyze_filter, check_filter, columns_of, filter_text, kept_text
from subscriber.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables

INT4, INT8, TEXT, NUMERIC, BOOL, TEXTS, BOX = 23, 20, 25, 1700, 16, 1009, 603
MOOD = 16500
COLUMNS = (
    PublisherColumn("a", 1, INT4),
    PublisherColumn("b", 2, TEXT, collation=100),
    PublisherColumn("c", 3, TEXT, collation=950),
    PublisherColumn("n", 4, NUMERIC),
    PublisherColumn("tags", 5, TEXTS, collation=100),
    PublisherColumn("mood", 6, MOOD),
    PublisherColumn("double", 7, INT8, generated="virtual", expression="(a * 2)"),
    PublisherColumn("place", 8, BOX),
)
TABLE = PublisherTable(20000, "public", "films", "table", COLUMNS)
OWN = "\n".join(  # noqa: FLY002 - a row a line
    [
        "type\t16500\tpublic\tmood\te\tE\t0\t0\t16501\t0\t0\t-1\t0\t0",
        "type\t16501\tpublic\t_mood\tb\tA\t0\t16500\t0\t0\t0\t-1\t0\t0",
        "function\t16510\tpublic\tis_long\t25\t16\tf\ti\t0\t0\t0\t\t",
        "function\t16511\tpublic\tsame\t25 25\t16\tf\ti\t0\t0\t0\t\t",
        "operator\t16512\tpublic\t===\t25\t25\t16\t16511\t0",
        "collation\t16513\tpublic\told_spelling",
        "collation\t12500\tpg_catalog\tde_DE",
    ]
)
TABLES = PublisherTables(180004, {TABLE.key: TABLE}, frozenset({950, 951}), own_objects=OWN)
BYTEWISE = replace(TABLES, bytewise_collations=frozenset({100, 950, 951}))


def canonical(text: str, tables: PublisherTables = TABLES) -> str:
    return filter_text(analyze_filter(text, TABLE, tables), tables)


def refusal(text: str, tables: PublisherTables = TABLES) -> SubscriberError:
    with pytest.raises(SubscriberError) as caught:
        check_filter(text, TABLE, tables)
    return caught.value


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("ctid = '(0,1)'", "System columns are not allowed."),
        ("b === 'x'", "User-defined operators are not allowed."),
        ("mood = 'good'", "User-defined types are not allowed."),
        ("mood IS NULL", "User-defined types are not allowed."),
        ("films IS NOT NULL", "User-defined types are not allowed."),
        ("is_long(b)", "User-defined or built-in mutable functions are not allowed."),
        ("random() < 0.1", "User-defined or built-in mutable functions are not allowed."),
        ("concat(b, 'x') = 'y'", "User-defined or built-in mutable functions are not allowed."),
        ("b < 'm' COLLATE old_spelling", "User-defined collations are not allowed."),
    ],
)
def test_what_users_make_and_what_changes_is_refused(text, detail):
    """B23, B24, B25: class, message and detail are the server's."""
    error = refusal(text)
    assert (error.sqlstate, error.message, error.detail) == (
        "0A000",
        "invalid publication WHERE expression",
        detail,
    )


@pytest.mark.parametrize(
    "text",
    [
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "a::text = '1'",
        "b::int = 1",
        "tags::varchar(3)[] = '{x}'",
        "tags[1] = 'x'",
        "b = current_user",
        "current_date > '2024-01-01'",
        "make_interval(days => a) IS NULL",
        "JSON_OBJECT('a': 1) IS NULL",
        "b IS JSON",
    ],
)
def test_nodes_that_are_not_simple_are_refused(text):
    """B27."""
    error = refusal(text)
    assert error.message == "invalid publication WHERE expression"
    assert (error.detail or "").startswith("Only columns, constants, built-in operators")


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("director = 'Varda'", "42703", 'column "director" does not exist'),
        ("films.x = 1", "42703", "column films.x does not exist"),
        ("other.a = 1", "42P01", 'missing FROM-clause entry for table "other"'),
        ("a", "42804", "argument of PUBLICATION WHERE must be type boolean, not type integer"),
        ("b", "42804", "argument of PUBLICATION WHERE must be type boolean, not type text"),
        ("a = b", "42883", "operator does not exist: integer = text"),
        ("- 'x' = a", "42725", "operator is not unique: - unknown"),
        ("nope(a, 'x') = 1", "42883", "function nope(integer, unknown) does not exist"),
        ("count(*) > 1", "42803", "aggregate functions are not allowed in WHERE"),
        ("row_number() OVER () > 1", "42P20", "window functions are not allowed in WHERE"),
        ("generate_series(1, 2) = 1", "0A000", "set-returning functions are not allowed in WHERE"),
        (
            'b COLLATE "C" < c COLLATE "POSIX"',
            "42P21",
            'collation mismatch between explicit collations "C" and "POSIX"',
        ),
        ("coalesce(a, b) = 1", "42804", "COALESCE types integer and text cannot be matched"),
        ("a::nope = 1", "42704", 'type "nope" does not exist'),
        ("nope.length(b) = 1", "3F000", 'schema "nope" does not exist'),
        ("b COLLATE nope = 'x'", "42704", 'collation "nope" for encoding "UTF8" does not exist'),
        ("$1 = a", "42P02", "there is no parameter $1"),
    ],
)
def test_what_the_parser_does_not_know_is_its_error(text, sqlstate, message):
    """B27, B28."""
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


@pytest.mark.parametrize(
    ("text", "near", "position"),
    [
        ("a =", '")"', 4),
        ("a = 1 b", '"b"', 7),
        ("a < 1 < 2", '"<"', 7),
        ("b = 'x' 'y'", "\"'…'\"", 9),
        ("a IN ()", '")"', 7),
    ],
)
def test_a_syntax_error_names_the_place(text, near, position):
    with pytest.raises(SQLSyntaxError) as caught:
        analyze_filter(text, TABLE, TABLES)
    assert caught.value.message == f"syntax error at or near {near}"
    assert caught.value.position == position


def test_binding_is_postgresqls():
    assert canonical("NOT a = 1") == "(NOT (a = 1))"
    assert canonical("a < 1 IS NULL") == "((a < 1) IS NULL)"
    assert canonical("b || 'x' = c") == "((b || 'x'::text) = c)"
    assert canonical("-a * 2 = a") == "(((- a) * 2) = a)"


def test_every_conversion_is_a_node():
    found = analyze_filter("n > a", TABLE, TABLES)
    assert isinstance(found, tree.Call)
    assert found.function == "numeric_gt(numeric,numeric)"
    conversion = found.arguments[1]
    assert isinstance(conversion, tree.Call)
    assert (conversion.function, conversion.form) == ("numeric(int4)", "implicit")


def test_a_column_of_c_decides_the_collation_of_a_comparison():
    found = analyze_filter("c < b", TABLE, TABLES)
    assert isinstance(found, tree.Call)
    assert found.input_collation == 950


def test_a_virtual_generated_column_is_written_out():
    """B29: so it is its columns that count for the replica identity (B33)."""
    found = check_filter("double > 4", TABLE, TABLES)
    assert filter_text(found, TABLES) == "(((a * 2))::bigint > 4)"
    assert columns_of(found) == {"a"}


def test_a_filter_is_kept_as_the_server_prints_it_unless_that_hides_a_conversion():
    """The text of an expanded column does not say what its type makes of the value."""
    rounded = replace(COLUMNS[6], type_oid=NUMERIC, type_modifier=(10 << 16 | 1) + 4, expression="(n * 2)")
    table = replace(TABLE, columns=(*COLUMNS[:6], rounded))
    assert kept_text("a>1", table, TABLES) == "(a > 1)"
    assert kept_text("double > 1", table, TABLES) == "double > 1"
    assert canonical("double > 1", TABLES) == "(((a * 2))::bigint > 1)"


def test_columns_of_a_filter_are_all_that_it_names():
    """B35: a constant filter has none."""
    assert columns_of(check_filter("CASE WHEN a > 1 THEN n = 1 ELSE b = 'x' END", TABLE, TABLES)) == {"a", "n", "b"}
    assert columns_of(check_filter("1 < 2", TABLE, TABLES)) == frozenset()


def test_what_we_do_not_compute_is_refused_by_name():
    """refuse_not_guess."""
    error = refusal("place = place")
    assert isinstance(error, NotSupportedError)
    assert error.message == "operator box = box is not supported in the row filters that the subscriber evaluates"
    assert refusal("place IS NULL").message.startswith("type box is not supported")
    assert refusal("num_nulls(VARIADIC tags) = 1").message.startswith("function num_nulls(text[])")
    assert refusal("xmlelement(name x) IS NULL").message.startswith("XMLELEMENT is not supported")


def test_an_order_of_text_needs_a_collation_that_compares_by_bytes():
    """refuse_not_guess: other collations are the server's operating system's."""
    error = refusal("b < 'm'")
    assert error.message == (
        'operator text < text by collation "default" is not supported in the row filters that the subscriber evaluates'
    )
    assert error.hint is not None
    assert 'COLLATE "C"' in error.hint
    check_filter("b COLLATE \"C\" < 'm'", TABLE, TABLES)
    check_filter("c < 'm'", TABLE, TABLES)
    check_filter("b = 'm'", TABLE, TABLES)
    check_filter("b < 'm'", TABLE, BYTEWISE)
    assert '"de_DE"' in refusal("b < 'm' COLLATE \"de_DE\"").message


def test_a_comparison_whose_collation_is_open_is_refused_as_the_server_refuses_to_evaluate_it():
    tables = replace(TABLES, tables={})
    table = replace(TABLE, columns=(COLUMNS[1], replace(COLUMNS[1], name="p", collation=951), COLUMNS[2]))
    with pytest.raises(SubscriberError) as caught:
        check_filter("p = c", table, tables)
    assert caught.value.sqlstate == "42P22"


def test_a_constant_that_cannot_be_computed_is_accepted_as_by_the_server():
    """The error comes with the first row."""
    check_filter("a > 0 OR 1 / 0 = 1", TABLE, TABLES)


def test_a_version_has_its_own_functions():
    """What came with 18 does not exist on 16; what 17 has is not recorded, so 16 speaks for it."""
    analyze_filter("crc32('x') = 1", TABLE, TABLES)
    for version in (150000, 160000, 170000):
        older = replace(TABLES, server_version=version)
        assert refusal("crc32('x') = 1", older).message == "function crc32(unknown) does not exist"
    assert catalog_of(100000) is catalog_of(150004)
    assert catalog_of(190000) is catalog_of(180000)


def test_parentheses_without_end_are_refused():
    error = refusal("(" * 3000 + "a = 1" + ")" * 3000)
    assert error.sqlstate == "54001"


def test_a_tree_can_be_sent_to_executors_and_be_a_key():
    found = check_filter("a IN (1, 2) AND (a, n) < (3, 4) OR CASE a WHEN 1 THEN b = 'x' END", TABLE, TABLES)
    assert pickle.loads(pickle.dumps(found)) == found
    assert (
        len({found, check_filter("a IN (1, 2) AND (a, n) < (3, 4) OR CASE a WHEN 1 THEN b = 'x' END", TABLE, TABLES)})
        == 1
    )
