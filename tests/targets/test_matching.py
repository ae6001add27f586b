"""The role ``matching``: how rows of UPDATE and DELETE are found, with a key and without (rules
C8-C17).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.base.errors import TargetRelationError
from subscriber.postgres.protocol import messages as m
from tests.frames import OIDS, relation, transaction, values
from tests.target_databases import AppliedTo, applied_to
from tests.targets.kinds import KNOWN


@pytest.fixture(params=KNOWN)
def on(request, tmp_path) -> Iterator[AppliedTo]:
    with applied_to(request.param, request, tmp_path) as opened:
        yield opened


def create(on: AppliedTo, columns: dict[str, str], constraint: str = "") -> None:
    """Table t, with the columns that we would make ourselves."""
    declared = [
        f"{name} {on.target.ddl.column_type(OIDS[kind], NAMES.get(kind, kind))}" for name, kind in columns.items()
    ]
    on.execute(f"CREATE TABLE t ({', '.join(declared)}{constraint})")


NAMES = {
    "int4": "integer",
    "bpchar": "character(12)",
    "float8": "double precision",
    "float4": "real",
    "timestamptz": "timestamp with time zone",
}


def full(columns: dict[str, str]) -> m.Relation:
    return relation("public.t", columns, identity="f")


def update(old: tuple[str | None, ...], new: tuple[str | None, ...]) -> m.Update:
    return m.Update(16384, "O", values(*old), values(*new))


def delete(*old: str | None) -> m.Delete:
    return m.Delete(16384, "O", values(*old))


def missing(result: ApplyResult) -> dict[str, int]:
    """The rows that were not found; whose rows the others were, PostgreSQL counts too."""
    return {kind: number for kind, number in result.conflicts.items() if kind.endswith("_missing")}


ALIKE = [
    ("numeric", "1.0", "1.000", "1.001"),
    ("float8", "0", "-0", "1e-300"),
    ("interval", "1 mon", "29 days 24:00:00", "1 mon 1 day"),
    ("bpchar", "one", "one     ", "one x"),
    ("jsonb", '{"n": [1.0, "1.0"]}', '{"n": [1.00, "1.0"]}', '{"n": [1.0, "1.00"]}'),
    ("numeric[]", "{1.0,NULL}", "{1,NULL}", "{1.0,1.0}"),
]


@pytest.mark.parametrize(("kind", "sent", "stored", "other"), ALIKE, ids=lambda value: str(value)[:9])
def test_values_are_equal_if_their_type_says_so_however_they_are_stored(on, kind, sent, stored, other):
    """C14, C16: one of the rows that are equal; a row that is not equal is none of them"""
    columns = {"a": "int4", "b": kind}
    create(on, columns)
    for text in (other, stored, stored):
        on.execute(f"INSERT INTO t VALUES (1, '{text}')")
    result = on.apply([full(columns)], *transaction(200, delete("1", sent), update(("1", sent), ("7", sent))))
    assert missing(result) == {}
    assert sorted(on.execute("SELECT a FROM t")) == [(1,), (7,)]
    result = on.apply([full(columns)], *transaction(1100, delete("1", sent), delete("7", sent)), end=2000)
    assert missing(result) == {"delete_missing": 1}
    assert on.execute("SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize(("kind", "sent", "stored"), [("numeric", "10.0", "10.000"), ("bpchar", "ab", "ab  ")])
def test_a_key_finds_its_row_however_it_is_stored(on, kind, sent, stored):
    """C14; neighbours in the order of texts are left alone"""
    columns = {"a": kind, "b": "int4"}
    declared = on.target.ddl.column_type(OIDS[kind], NAMES.get(kind, kind), key=True)
    on.execute(f"CREATE TABLE t (a {declared} PRIMARY KEY, b integer)")
    for text in ("1", stored, "100", "10.01"):
        on.execute(f"INSERT INTO t VALUES ('{text}', 0)")
    shape = relation("public.t", columns, ["a"])
    changes = [m.Update(16384, None, None, values(sent, "1")), m.Update(16384, None, None, values("3", "1"))]
    assert missing(on.apply([shape], *transaction(200, *changes))) == {"update_missing": 1}
    assert on.execute("SELECT count(*) FROM t WHERE b = 1") == [(1,)]
    assert missing(on.apply([shape], *transaction(1100, m.Delete(16384, "K", values(sent, None))), end=2000)) == {}
    assert on.execute("SELECT count(*), max(b) FROM t") == [(3, 0)]


@pytest.mark.parametrize(
    ("kind", "sent", "stored"), [("numeric", "10.0", "10.000"), ("float8", "0", "-0")], ids=lambda text: text
)
@pytest.mark.parametrize("identity", ["d", "f"])
def test_a_key_is_written_as_the_publisher_has_it_however_it_was_stored(on, kind, sent, stored, identity):
    """C14: SET leaves a key out only where equal values are the same; with an old tuple the same
    holds
    """
    declared = on.target.ddl.column_type(OIDS[kind], NAMES.get(kind, kind), key=True)
    on.execute(f"CREATE TABLE t (a {declared} PRIMARY KEY, b integer)", f"INSERT INTO t VALUES ('{stored}', 0)")
    shape = relation("public.t", {"a": kind, "b": "int4"}, ["a"], identity=identity)
    old = values(sent, "0") if identity == "f" else None
    change = m.Update(16384, "O" if old else None, old, values(sent, "1"))
    assert missing(on.apply([shape], *transaction(200, change))) == {}
    text = "concat(a)" if on.kind in ("mariadb", "seekdb") else "CAST(a AS varchar)"
    ((found, b),) = on.execute(f"SELECT {text}, b FROM t")
    assert (str(found).removesuffix(".0") if kind == "float8" else found, b) == (sent, 1)


def test_a_key_whose_letters_case_the_index_ignores_is_written(request, tmp_path):
    """SQLite: a key finds what its index calls equal, which need not be what the publisher has"""
    with applied_to("sqlite", request, tmp_path) as on:
        on.execute("CREATE TABLE t (a text COLLATE NOCASE, c text, b integer, PRIMARY KEY (a, c))")
        on.execute("INSERT INTO t VALUES ('A', 'C', 0)")
        shape = relation("public.t", {"a": "text", "c": "text", "b": "int4"}, ["a", "c"])
        assert missing(on.apply([shape], *transaction(200, m.Update(16384, None, None, values("a", "C", "1"))))) == {}
        assert on.execute("SELECT a, c, b FROM t") == [("a", "C", 1)]


def test_equal_rows_are_taken_one_by_one(on):
    """C16; NULL equals NULL (C14)"""
    columns = {"a": "int4", "b": "text"}
    create(on, columns)
    on.execute("INSERT INTO t VALUES (2, NULL), (2, NULL), (2, NULL), (2, 'x')")
    on.apply([full(columns)], *transaction(200, delete("2", None), update(("2", None), ("4", None))))
    assert sorted(on.execute("SELECT a, b FROM t"), key=str) == [(2, "x"), (2, None), (4, None)]


@pytest.mark.parametrize("identity", ["f", "d"])
def test_a_row_of_as_many_columns_as_a_table_can_have_is_found(on, identity):
    """C14: without a key the statement compares every column, and SQLite has a limit for the depth
    of an expression
    """
    if on.kind == "turso" and identity == "f":
        pytest.skip("its expressions have a depth of 100 at most")
    number = 1_000 if on.kind in ("mariadb", "seekdb") else 1_600
    columns = {f"c{place}": "int4" for place in range(1, number + 1)} | {"n": "numeric"}
    del columns[f"c{number}"]
    create(on, columns, ", PRIMARY KEY (c1)" if identity == "d" else "")
    on.execute("INSERT INTO t (c1, n) VALUES (6, '1.00'), (7, '1.00'), (8, '1.00')")
    old = ("7", *[None] * (number - 2), "1.0")
    new = ("7", *[None] * (number - 3), "-1", "1.0")
    shape = relation("public.t", columns, ["c1"], identity=identity)
    changed = m.Update(16384, None, None, values(*new)) if identity == "d" else update(old, new)
    assert missing(on.apply([shape], *transaction(200, changed))) == {}
    assert on.execute(f"SELECT c1 FROM t WHERE c{number - 1} = -1") == [(7,)]
    gone = m.Delete(16384, "K", values("7", *[None] * (number - 1))) if identity == "d" else delete(*new)
    assert missing(on.apply([shape], *transaction(1100, gone), end=2000)) == {}
    result = on.apply([shape], *transaction(2100, gone), end=3000)
    assert missing(result) == {"delete_missing": 1}
    assert sorted(on.execute("SELECT c1 FROM t")) == [(6,), (8,)]


def test_letters_of_another_case_and_blanks_at_the_end_make_another_row(on):
    """C14: on MariaDB whatever the collation is that nobody has chosen"""
    on.execute("CREATE TABLE t (a varchar(9))", "INSERT INTO t VALUES ('a'), ('A '), ('A')")
    on.apply([full({"a": "text"})], *transaction(200, delete("A"), update(("A ",), ("b",))))
    assert sorted(on.execute("SELECT a FROM t")) == [("a",), ("b",)]


def test_a_row_with_more_at_the_subscriber_is_never_found(on):
    """C15: what the publisher does not have is looked for as NULL; a generated column is not looked
    at (C14)
    """
    if on.kind == "turso":
        pytest.skip("it has no generated columns")
    on.execute(
        "CREATE TABLE t (a integer, own integer, g integer GENERATED ALWAYS AS (a + 1)"
        f"{' STORED' if on.kind == 'postgresql' else ''})",
        "INSERT INTO t (a, own) VALUES (1, 7), (2, NULL)",
    )
    result = on.apply([full({"a": "int4"})], *transaction(200, delete("1"), delete("2")))
    assert missing(result) == {"delete_missing": 1}
    assert on.execute("SELECT a, own, g FROM t") == [(1, 7, 2)]


EVENTS = {"id": "int4", "doc": "json", "note": "text"}


def test_a_type_without_equality_stops_only_when_two_of_its_values_have_to_be_compared(on):
    """C17: not where one side is NULL, nor where a column before it differs, and before any column
    behind it is looked at
    """
    create(on, EVENTS)
    on.execute("""INSERT INTO t VALUES (1, '{"a": 1}', 'x'), (2, NULL, 'x')""")
    shape = full(EVENTS)
    no_value = [delete("2", None, "x"), delete("1", None, "x"), delete("5", '{"a": 1}', "x"), delete("2", "1", "x")]
    assert missing(on.apply([shape], *transaction(200, *no_value))) == {"delete_missing": 3}
    assert on.execute("SELECT id FROM t") == [(1,)]
    with pytest.raises(TargetRelationError) as raised:
        on.apply([shape], *transaction(1100, delete("1", '{"b": "hidden"}', "another")), end=2000)
    assert raised.value.message == "could not identify an equality operator for type json"
    assert (raised.value.sqlstate, raised.value.column) == ("42883", "doc")
    assert "hidden" not in raised.value.report()


def test_a_column_that_is_compared_by_its_type_can_stand_before_one_that_cannot_be(on):
    """C14, C17"""
    columns = {"size": "numeric", "doc": "json"}
    create(on, columns)
    on.execute("INSERT INTO t VALUES ('1.00', '7')")
    assert missing(on.apply([full(columns)], *transaction(200, delete("1.01", "7")))) == {"delete_missing": 1}
    with pytest.raises(TargetRelationError, match="equality operator for type json"):
        on.apply([full(columns)], *transaction(1100, delete("1.0", "7")), end=2000)
