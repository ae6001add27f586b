"""Workloads about rows: identities, types, names, generated columns, out-of-line values."""

from __future__ import annotations

from subscriber.postgres.logical_decoding import Column, Toasted
from tests.workloads.registry import publish, random_text, table, workload

LONG = random_text(5000)
LONGER = random_text(9000, seed=2)
LONG_KEY = random_text(2400, seed=3)

VALUES = {
    "boolean": ("f", "t"), "smallint": ("-1", "32767"), "integer": ("5", "-2147483648"), "bigint": ("9", "9223372036854775807"),
    "oid": ("7", "4294967295"), "real": ("1.5", "-0"), "double precision": ("NaN", "1e-300"), "numeric": ("0", "-12345.678900"),
    "numeric(10,2)": ("1.50", "NaN"), "numeric(20,0)": ("10000", "123456789012345678"), "text": ("it's \\ a 'text'\n2", ""),
    "character varying(10)": ("x", "Größe"), "character(3)": ("x  ", "abc"), '"char"': ("c", ""), "name": ("n", "m" * 63),
    "bytea": ("\\x00ff", "\\x"), "date": ("2000-01-01", "infinity"), "time without time zone": ("01:02:03", "23:59:59.999999"),
    "time with time zone": ("01:02:03+00", "04:05:06-08"), "timestamp without time zone": ("2000-01-01 00:00:00", "-infinity"),
    "timestamp with time zone": ("2000-01-01 00:00:00+00", "1999-12-31 23:59:59.5+00"),
    "interval": ("1 day", "-1 years -2 mons +3 days -04:05:06.7"), "uuid": ("00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "json": ('{"a": 1}', "[]"), "jsonb": ('{"a": 1}', '[1, null, "x"]'), "bit(3)": ("101", "000"),
    "bit varying(20)": ("01", "110011001100"), "inet": ("10.0.0.1", "::1/64"), "cidr": ("10.0.0.0/8", "2001:db8::/32"),
    "macaddr": ("08:00:2b:01:02:03", "00:00:00:00:00:00"), "macaddr8": ("08:00:2b:01:02:03:04:05", "00:00:00:ff:fe:00:00:00"),
    "point": ("(1,2)", "(-0.5,1e+20)"), "line": ("{1,2,3}", "{1,-1,0}"), "lseg": ("[(1,2),(3,4)]", "[(0,0),(0,0)]"),
    "box": ("(3,4),(1,2)", "(1,1),(0,0)"), "path": ("((1,2),(3,4))", "[(0,0),(1,1)]"), "polygon": ("((0,0),(1,0),(0,1))", "((1,2))"),
    "circle": ("<(1,2),3>", "<(0,0),0>"), "tsvector": ("'a' 'b':2A", "'x':1,5B"), "tsquery": ("'a' & !'b'", "'x':*A"),
    "pg_lsn": ("0/16B3748", "FFFFFFFF/0"), "integer[]": ("{1,2}", "{{1,NULL},{3,4}}"), "text[]": ("{a,NULL}", "{}"),
    "numeric[]": ("{1.5}", "[2:3]={1,2}"), "timestamp with time zone[]": ('{"2000-01-01 00:00:00+00"}', "{}"), "boolean[]": ("{t,f}", "{}"),
    "int4range": ("[1,5)", "empty"), "numrange": ("(1.5,2]", "(,)"), "tstzrange": ('["2000-01-01 00:00:00+00",)', "empty"),
    "int4multirange": ("{[1,2),[5,9)}", "{}"), "daterange": ("[2000-01-01,2000-01-05)", "(,2000-01-01)"), "int2vector": ("1 2", "5"),
}  # fmt: skip
"""For each type two values, as the output function writes them."""


@workload
def every_action(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.begin()
    session.insert("t", a=1, b="it's")
    session.insert("t", a=2)
    session.update("t", {"a": 1}, b="y")
    session.update("t", {"a": 2}, a=3)
    session.update("t", {"a": 3}, a=3, b="same key")
    session.delete("t", {"a": 1})
    session.commit()
    session.delete("t", {})


@workload
def identity_full(publisher):
    table(publisher, key=(), a="integer", b="text", c="numeric")
    publisher.session().replica_identity("t", "full")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b="x")
    session.insert("t", a=1, b="x")
    session.update("t", {"a": 1}, c="1.50")
    session.update("t", {"a": 1}, c="1.50")
    session.delete("t", {"b": "x"})


@workload
def identity_nothing(publisher):
    table(publisher)
    table(publisher, "u", key=())
    session = publisher.session()
    session.replica_identity("t", "nothing")
    publish(publisher, "t", "u", publish=["insert", "truncate"])
    yield
    for name in ("t", "u"):
        session.insert(name, a=1, b="x")
        session.update(name, {"a": 1}, b="y")
        session.update(name, {"a": 1}, a=2)
        session.delete(name, {"a": 2})


@workload
def identity_index(publisher):
    table(publisher, a="integer", b="text", c="integer", d="text")
    session = publisher.session()
    session.replica_identity("t", "index", ["b", "c"])
    publish(publisher, "t")
    yield
    session.insert("t", a=1, b="x", c=1, d="d")
    session.update("t", {"a": 1}, d="e")
    session.update("t", {"a": 1}, a=2)
    session.update("t", {"a": 2}, c=2)
    session.delete("t", {})


@workload
def a_key_of_two_columns_in_another_order(publisher):
    publisher.create_table("t", {"v": "text", "k2": "integer", "k1": "integer"}, ["k1", "k2"])
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", v="x", k1=1, k2=2)
    session.update("t", {"k1": 1}, v="y")
    session.update("t", {"k1": 1}, k2=3)
    session.delete("t", {"k1": 1, "k2": 3})


@workload
def every_type(publisher):
    columns = {"id": "integer"} | {f"c{number}": name for number, name in enumerate(VALUES)}
    publisher.create_table("t", columns, ["id"])
    publish(publisher, "t")
    yield
    session = publisher.session()
    for place in (0, 1):
        values = {f"c{number}": texts[place] for number, texts in enumerate(VALUES.values())}
        session.insert("t", {"id": place, **values})
    session.insert("t", id=2)


@workload
def money(publisher):
    table(publisher, a="money", b="money[]", key=())
    publish(publisher, "t", publish=["insert"])
    yield
    publisher.session().insert("t", a="$1.00", b="{-$2.50,NULL}")


@workload
def types_as_keys(publisher):
    names = [
        name
        for name in VALUES
        if name not in {"json", "point", "line", "lseg", "box", "path", "polygon", "circle", "int2vector"}
    ]
    for number, name in enumerate(names):
        table(publisher, f"t{number}", k=name, v="integer", key=("k",))
    publish(publisher, *(f"t{number}" for number in range(len(names))))
    yield
    session = publisher.session()
    session.begin()
    for number, name in enumerate(names):
        one, two = VALUES[name]
        session.insert(f"t{number}", k=one, v=1)
        session.update(f"t{number}", {"v": 1}, k=two)
        session.delete(f"t{number}", {})
    session.commit()


@workload
def types_of_the_user(publisher):
    session = publisher.session()
    session.create_enum("mood")
    session.create_enum("S s.mood")
    session.create_domain("positive", "integer")
    session.create_domain("tiny", "positive")
    session.create_domain("S s.words", "character varying(20)[]")
    session.create_domain("feeling", "mood")
    columns = {
        "a": "integer", "m": "mood", "n": '"S s".mood', "p": "positive", "q": "tiny", "w": '"S s".words',
        "f": "feeling", "ms": "mood[]", "ps": "positive[]",
    }  # fmt: skip
    publisher.create_table("t", columns, ["a"])
    publish(publisher, "t")
    yield
    session.insert("t", a=1, m="ok", n="sad", p=5, q=6, w="{x,y}", f="ok", ms="{ok,sad}", ps="{1,2}")
    session.insert("t", a=2)
    session.update("t", {"a": 2}, m="sad")


@workload
def types_without_a_binary_format(publisher):
    session = publisher.session()
    session.create_domain("grant_", "aclitem")
    publisher.create_table("t", {"a": "integer", "b": "aclitem", "c": "grant_"}, ["a"])
    publish(publisher, "t")
    yield
    session.insert("t", a=1, b="=r/postgres", c="=w/postgres")
    session.insert("t", a=2)


@workload
def arrays_without_a_binary_format(publisher):
    session = publisher.session()
    session.create_domain("grant_", "aclitem")
    session.create_domain("grants", "aclitem[]")
    publisher.create_table("t", {"a": "integer", "b": "aclitem[]"}, ["a"])
    publisher.create_table("u", {"a": "integer", "b": "grants"}, ["a"])
    publisher.create_table("v", {"a": "integer", "b": "grant_[]"}, ["a"])
    publish(publisher, "t", "u", "v")
    yield
    for table_ in ("t", "u", "v"):
        session.insert(table_, a=1)
    for table_ in ("v", "u", "t"):
        session.insert(table_, a=2, b="{}")


@workload
def names_that_need_quotes(publisher):
    columns = {"select": "integer", 'q"q': "boolean", "Größe": "text", "a b": "character varying"}
    publisher.create_table("S s.Odd Näme", columns, ["select"])
    publisher.create_table("order", {"Key": "bigint"}, ["Key"])
    publish(publisher, "S s.Odd Näme", "order")
    yield
    session = publisher.session()
    session.insert("S s.Odd Näme", {"select": 1, 'q"q': True, "Größe": "😀", "a b": "'"})
    session.update("S s.Odd Näme", {"select": 1}, select=2)
    session.insert("order", {"Key": 1})
    session.truncate("order", "S s.Odd Näme")


def _generated(publisher, kind):
    publisher.create_table(
        "t",
        [
            Column("a", "integer"),
            Column("g", "integer", kind, "a * 2", lambda row: int(row["a"]) * 2),
            Column("b", "text"),
            Column("h", "text", kind, "upper(b)", lambda row: row["b"] and row["b"].upper()),
        ],
        ["a"],
    )


def _generated_rows(publisher):
    session = publisher.session()
    session.insert("t", a=1, b="x")
    session.update("t", {"a": 1}, a=2)
    session.update("t", {"a": 2}, b="y")
    session.insert("t", a=3)
    session.delete("t", {"a": 2})


@workload
def generated_columns_that_are_stored(publisher):
    _generated(publisher, "stored")
    publish(publisher, "t")
    yield
    _generated_rows(publisher)


@workload(since=18)
def generated_columns_that_are_published(publisher):
    _generated(publisher, "stored")
    publish(publisher, "t", generated_columns="stored")
    yield
    _generated_rows(publisher)
    session = publisher.session()
    session.replica_identity("t", "full")
    session.update("t", {}, b="z")


@workload(since=18)
def generated_columns_that_are_virtual(publisher):
    _generated(publisher, "virtual")
    publish(publisher, "t", generated_columns="stored")
    yield
    _generated_rows(publisher)


@workload
def values_out_of_line(publisher):
    table(publisher, a="integer", b="text", c="integer", d="bytea")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b=Toasted(LONG), c=1, d=Toasted(LONGER.encode()))
    session.update("t", {"a": 1}, c=2)
    session.update("t", {"a": 1}, a=2)
    session.update("t", {"a": 2}, b=Toasted(LONGER))
    session.update("t", {"a": 2}, b="short")
    session.delete("t", {"a": 2})


@workload
def values_out_of_line_with_identity_full(publisher):
    table(publisher, a="integer", b="text", c="integer")
    session = publisher.session()
    session.replica_identity("t", "full")
    publish(publisher, "t")
    yield
    session.begin()
    session.insert("t", a=1, b=Toasted(LONG), c=1)
    session.update("t", {"a": 1}, c=2)
    session.update("t", {"a": 1}, b=Toasted(LONGER))
    session.delete("t", {"a": 1})
    session.commit()


@workload
def a_key_out_of_line(publisher):
    table(publisher, key=("k",), k="text", v="integer")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", k=Toasted(LONG_KEY), v=1)
    session.update("t", {}, v=2)
    session.update("t", {}, k="short")
    session.delete("t", {})


@workload
def inserts_on_conflict(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b="x", on_conflict=True)
    session.begin()
    session.insert("t", a=2, b="y", on_conflict=True)
    session.savepoint("s")
    session.insert("t", a=3, b="z", on_conflict=True)
    session.commit()


@workload
def many_rows_in_one_statement(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.begin()
    for number in range(12):
        session.insert("t", a=number, b="x")
    session.commit()
    session.update("t", {"b": "x"}, b="y")
    session.delete("t", {})


@workload
def tables_that_are_not_published(publisher):
    table(publisher)
    table(publisher, "u")
    publisher.create_table("l", {"a": "integer", "b": "text"}, ["a"], persistence="unlogged")
    publisher.create_table("S.v", {"a": "integer", "b": "text"}, ["a"])
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.create_table("w", {"a": "integer"}, persistence="temporary")
    session.insert("u", a=1)
    session.insert("l", a=1)
    session.begin()
    session.insert("u", a=2)
    session.insert("t", a=1)
    session.update("u", {}, b="x")
    session.insert("S.v", a=1)
    session.commit()
    session.truncate("u", "l", "t")
    session.truncate("l")
