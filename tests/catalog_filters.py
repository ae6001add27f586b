"""Row filters that are made from a server's catalogs: every operator, function and cast with edge
values of each type, and random nestings.

::

    pg_operator, pg_proc, pg_cast ──entries──▶ Entry ──Writer.calls──▶ expressions over the columns of a table, and over constants
                                                 └────Writer.nested──▶ the same inside each other, and inside CASE, COALESCE, IN, AND …

The table has two columns of each type that is computed here, and in its rows the edge values of the
type in two random orders.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import psycopg

from subscriber.postgres.expressions.functions import FUNCTIONS

ROWS: Final = 24

EDGES: Final[dict[str, tuple[str, ...]]] = {
    "boolean": ("t", "f"),
    "smallint": ("0", "1", "-1", "2", "3", "7", "32767", "-32768", "-5", "100", "15", "16"),
    "integer": ("0", "1", "-1", "2", "3", "7", "31", "32", "2147483647", "-2147483648", "32768", "-32769", "97", "100000", "-7"),
    "bigint": (
        "0", "1", "-1", "2", "3", "9223372036854775807", "-9223372036854775808", "2147483648", "-2147483649", "4294967295",
        "4294967296", "63", "64", "-2", "1000000",
    ),
    "oid": ("0", "1", "4294967295", "2147483647", "2147483648", "16384"),
    "real": ("0", "-0", "1", "-1", "0.5", "1.5", "2.5", "-2.5", "NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "32767.5", "0.1"),
    "double precision": (
        "0", "-0", "1", "-1", "0.5", "1.5", "2.5", "-2.5", "NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "5e-324",
        "9223372036854775807", "2147483647.5", "-2147483648.5", "0.1", "1e15", "-3", "1e308",
    ),
    "numeric": (
        "0", "0.00", "1", "-1", "1.50", "2.5", "-2.5", "NaN", "Infinity", "-Infinity", "9223372036854775807.4", "2147483647.5", "1e40",
        "1e-40", "-0.0001", "3", "12345678901234567890.12345678901234567890", "32767.5", "10", "100",
    ),
    "text": ("", "a", "b", "ab", "aB", "A%", "%", "_", "a%,b%", "ü", "abc abc", "a\\b", "  a ", "1", "-7", "year", "YMD", "x.y", "(a)", "[", "UTC", "hex", 'a#"b#"c'),
    "character varying": ("", "a", "ab", "aB", "ü", "a%", "  a ", "1", "abc"),
    "character": ("", "a", "ab", "aB", "ü", "a%", "  a ", "1", "abc"),
    "name": ("", "a", "ab", "aB", "ü", "a%", "x" * 63, "1"),
    '"char"': ("", "a", "b", "\\377", "\\001", "0", " "),
    "bytea": ("\\x", "\\x00", "\\x61", "\\x6162", "\\xff", "\\xc3bc", "\\x80000000", "\\x0102030405060708", "\\xffffffff"),
    "bit": ("", "0", "1", "101", "111", "000", "10000000", "11111111111111111111111111111111", "0101010101"),
    "bit varying": ("", "0", "1", "101", "111", "000", "10000000", "11111111111111111111111111111111", "0101010101"),
    "date": ("2000-01-01", "2024-02-29", "2023-12-31", "infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "1999-12-31", "0001-01-01", "0001-12-31 BC", "294277-01-01"),
    "time without time zone": ("00:00", "24:00", "12:00", "23:59:59.999999", "00:00:00.000001", "10:30", "12:00:00.5"),
    "time with time zone": ("00:00+00", "24:00+00", "12:00-15:59:59", "12:00+15:59:59", "23:59:59.999999+01", "10:30-02", "00:00+14"),
    "timestamp without time zone": (
        "2000-01-01 00:00", "2024-02-29 23:59:59.999999", "infinity", "-infinity", "4714-11-24 00:00 BC", "294276-12-31 23:59:59.999999",
        "1970-01-01 00:00", "2023-12-31 12:34:56.5", "0001-12-31 23:59 BC", "1999-12-31 23:59:59.999999", "2024-03-31 01:30",
    ),
    "timestamp with time zone": (
        "2000-01-01 00:00+00", "2024-02-29 23:59:59.999999+00", "infinity", "-infinity", "4714-11-24 00:00+00 BC",
        "294276-12-31 23:59:59.999999+00", "1970-01-01 00:00+00", "2023-12-31 12:34:56.5+00", "0001-12-31 23:59+00 BC",
        "1999-12-31 23:59:59.999999+00",
    ),
    "interval": (
        "0", "1 day", "-1 day", "1 mon", "30 days", "24:00", "infinity", "-infinity", "1 year 2 mons 3 days 04:05:06.789",
        "-1 year -2 mons +3 days -04:05:06", "2562047788:00:54.775807", "-2562047788:00:54.775807", "178956970 years 7 mons",
        "2147483647 days", "-2147483648 days", "00:00:00.000001", "1 mon -1 day", "12:00",
    ),
    "uuid": (
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "123e4567-e89b-12d3-a456-426614174000",
        "0190163d-8694-739b-aea5-966c26f8ad90", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "inet": (
        "0.0.0.0", "255.255.255.255", "10.0.0.1/8", "192.168.1.5/24", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::1/64", "10.0.0.0/0",
        "::ffff:1.2.3.4", "fe80::1/10", "10.0.0.1/32",
    ),
    "cidr": ("0.0.0.0/0", "255.255.255.255/32", "10.0.0.0/8", "192.168.1.0/24", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "fe80::/10", "10.1.2.0/25"),
    "macaddr": ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "08:00:2b:01:02:03", "02:00:00:00:00:01"),
    "macaddr8": ("00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff", "08:00:2b:ff:fe:01:02:03", "08:00:2b:01:02:03:04:05"),
    "json": ("null", "1", "-1.50", "true", '"a"', '""', "[]", "{}", '[1, "a", null]', '{"a": {"b": [1, 2]}, "c": null}', '{"a": 1, "a": 2}', '"\\u0000"', '"\\ud800"', '{"a": "\\u0000"}', '{"\\u0000": 1}', "[[1,2],[3]]"),
    "jsonb": ("null", "1", "-1.50", "true", '"a"', '""', "[]", "{}", '[1, "a", null]', '{"a": {"b": [1, 2]}, "c": null}', '{"a": 1, "b": 2}', "[[1,2],[3]]", "1e400", '["a", "b"]'),
    "int4range": ("empty", "[1,5)", "(,3]", "[3,)", "(,)", "[7,7]", "[5,9)", "[-2147483648,2147483647)"),
    "int4multirange": ("{}", "{[1,5)}", "{(,0),[3,7)}", "{[1,2),[3,4),[8,)}", "{(,)}", "{[5,7),[9,9]}", "{(,2147483647)}"),
    "numrange": ("empty", "[1,5)", "[1.0,5.00]", "(1.5,)", "(,2.50]", "(,)", "(2.5,3)", "[NaN,NaN]"),
    "nummultirange": ("{}", "{[1,5)}", "{[1.0,5.00]}", "{(,0],(2.5,3),(4,)}", "{[0.00,0],[1,2.50)}", "{[Infinity,NaN]}"),
    "datemultirange": ("{}", "{(,2000-01-01),[2024-02-29,infinity]}", "{[1999-12-31,2000-01-01)}", "{[-infinity,)}"),
}  # fmt: skip
"""Values of each type, as the type's input function reads them."""
_ARRAY_SHAPES: Final = (
    "{}",
    "{%s}",
    "{%s,NULL}",
    "{NULL,%s,%s}",
    "{{%s,%s},{%s,NULL}}",
    "[0:1]={%s,%s}",
    "[2:3]={%s,%s}",
)
ELEMENTS: Final = (
    "integer",
    "smallint",
    "bigint",
    "text",
    "numeric",
    "double precision",
    "boolean",
    "date",
    "interval",
    "bytea",
    "name",
    "int4range",
)
"""Element types of the arrays that are tested; arrays of other types use the same functions."""
ODD_LITERALS: Final = (
    "", "x", "1", "-1", "0", "a%", "{}", "{1,2}", "{a%,b%}", "{{a,b},{c,d}}", "2000-01-01", "1 day", "12:00", "t", "\\x00", "101", "empty",
    "0x1F", "1e400", "nan", "infinity", "allballs", "now", " 7 ", "010", "1_000", "99999999999999999999", "2147483647.5", "[", "null", "P1Y",
)  # fmt: skip
"""The text of a constant. The analysis chooses its type."""

_ENTRIES: Final = """
SELECT 'operator', o.oprname, ARRAY(SELECT format_type(one, NULL) FROM unnest(ARRAY[o.oprleft, o.oprright]) AS one WHERE one <> 0),
       format_type(o.oprresult, NULL), p.provolatile, false, p.oid::int8
  FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode WHERE o.oid < 16384
UNION ALL
SELECT 'function', quote_ident(proname), ARRAY(SELECT format_type(type, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS _(type, place) ORDER BY place),
       format_type(prorettype, NULL), provolatile, provariadic <> 0, oid::int8
  FROM pg_proc WHERE oid < 16384 AND pronamespace = 'pg_catalog'::regnamespace AND prokind <> 'p'
UNION ALL
SELECT 'cast', '', ARRAY[format_type(castsource, NULL), format_type(casttarget, NULL)], format_type(casttarget, NULL), 'i', false, castfunc::int8
  FROM pg_cast WHERE oid < 16384
ORDER BY 1, 2, 3
"""
_SIGNATURES: Final = """
SELECT oid::int8, proname || '(' || coalesce((SELECT string_agg(typname, ',' ORDER BY place)
           FROM unnest(proargtypes) WITH ORDINALITY AS argument(type, place) JOIN pg_type ON pg_type.oid = argument.type), '') || ')'
  FROM pg_proc WHERE oid < 16384
"""
_POLYMORPHIC: Final = {"anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray", '"any"'}
_ARRAYS: Final = {"anyarray", "anycompatiblearray"}
_RANGES: Final = {"anyrange": "int4range", "anymultirange": "int4multirange"}
_FOR_ANY: Final = _POLYMORPHIC | _ARRAYS | {
    "anyenum", "anyrange", "anymultirange", "anycompatiblerange", "anycompatiblemultirange", "cstring",
}  # fmt: skip
_HOLE: Final = re.compile(r"<<([^<>]+)>>")
_CONSTRUCTS: Final = (
    "COALESCE(<<same>>, <<same>>)",
    "NULLIF(<<same>>, <<same>>)",
    "GREATEST(<<same>>, <<same>>)",
    "LEAST(<<same>>, <<same>>, <<same>>)",
    "CASE WHEN <<boolean>> THEN <<same>> ELSE <<same>> END",
    "CASE <<other>> WHEN <<other>> THEN <<same>> WHEN <<other>> THEN <<same>> END",
)
_CONDITIONS: Final = (
    "<<boolean>> AND <<boolean>>",
    "<<boolean>> OR <<boolean>>",
    "NOT <<boolean>>",
    "<<boolean>> IS <<not>> <<truth>>",
    "<<other>> IS <<not>> NULL",
    "<<other>> IS <<not>> DISTINCT FROM <<other>>",
    "<<other>> <<not>> IN (<<other>>, <<other>>, <<other>>)",
    "<<other>> <<not>> BETWEEN <<other>> AND <<other>>",
    "<<other>> <<compare>> <<other>>",
    "<<other>> <<compare>> <<some>> (ARRAY[<<other>>, <<other>>])",
    "ROW(<<other>>, <<integer>>) <<compare>> ROW(<<other>>, <<integer>>)",
    "ROW(<<other>>, <<integer>>) IS <<not>> DISTINCT FROM ROW(<<other>>, <<integer>>)",
    "<<text>> <<like>> <<some>> (<<patterns>>)",
    "<<name>> <<like>> <<some>> (<<patterns>>)",
    "<<character>> <<like>> <<some>> (<<patterns>>)",
    "(<<moment>>) OVERLAPS (<<moment>>)",
)
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "not": ("", "NOT"),
    "truth": ("TRUE", "FALSE", "UNKNOWN"),
    "compare": ("=", "<>", "<", "<=", ">", ">="),
    "some": ("ANY", "ALL"),
    "like": ("LIKE", "ILIKE", "~", "~*", "NOT LIKE", "NOT ILIKE", "!~", "!~*"),
    "patterns": (
        "'{a%,b%}'", "'{}'", "'{{a,b},{c,NULL}}'", "'{a%,NULL}'", "string_to_array('a%,b%', ',')", "ARRAY['a%'] || 'b%'::text",
        "ARRAY[ARRAY['a%'],ARRAY['b%']]", "ARRAY['a%','%b']",
    ),
    "moment": tuple(
        f"<<{start}>>, <<{end}>>"
        for start in ("date", "timestamp without time zone", "timestamp with time zone", "time without time zone")
        for end in (start, "interval")
    ),
}  # fmt: skip
"""The text for each placeholder of a template. A placeholder with another name stands for an
expression of that type.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a catalog.

    Attributes:
        kind: operator, function or cast.
        name: as SQL writes it; of a cast, nothing.
        arguments: names of types; of a cast, from and to.
        result: the type of its result.
        is_immutable: a publication may have it.
        is_variadic: its last argument is the array of a VARIADIC one.
        is_computed: the subscriber has it.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]
    result: str
    is_immutable: bool
    is_variadic: bool
    is_computed: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.name}({', '.join(self.arguments)})"


def entries(connection: psycopg.Connection[Any]) -> list[Entry]:
    """Every built-in operator, function and cast of the server."""
    signatures: dict[int, str] = dict(connection.execute(_SIGNATURES).fetchall())
    return [
        Entry(
            kind, name, tuple(types), result, volatility == "i", variadic,
            FUNCTIONS.get(signatures[function]) is not None if function else {*types} <= EDGES.keys(),
        )
        for kind, name, types, result, volatility, variadic, function in connection.execute(_ENTRIES)
    ]  # fmt: skip


def literal(text: str) -> str:
    """A string constant."""
    quoted = text.replace("'", "''")
    return f"E'{quoted}'".replace("\\", "\\\\") if "\\" in text else f"'{quoted}'"


class Sample:
    """The table that the expressions use.

    Attributes:
        types: by the names of its columns.
        ddl: makes and fills it; run it on a server.
    """

    def __init__(self, random: Random) -> None:
        names = [*EDGES, *(f"{name}[]" for name in ELEMENTS)]
        self.types = {f"c{place}_{side}": name for place, name in enumerate(names) for side in (1, 2)}
        self._columns = {name: [one for one, kind in self.types.items() if kind == name] for name in names}
        self.values = {name: self._made(name, random) for name in names}
        declared = ", ".join(f"{column} {_declared(name)}" for column, name in self.types.items())
        orders = {column: _order(self.values[name], random) for column, name in self.types.items()}
        rows = [
            f"({row}, {', '.join('NULL' if values[row] is None else literal(values[row]) for values in orders.values())})"
            for row in range(ROWS)
        ]
        self.ddl = f"CREATE TABLE sample (i int, {declared}); INSERT INTO sample VALUES {', '.join(rows)}"

    def _made(self, name: str, random: Random) -> list[str]:
        if not name.endswith("[]"):
            return list(EDGES[name])
        elements = [f'"{text}"'.replace("\\", "\\\\") for text in EDGES[name[:-2]] if '"' not in text]
        return [shape % tuple(random.choices(elements, k=shape.count("%s"))) for shape in _ARRAY_SHAPES * 2]

    def columns(self, name: str) -> list[str]:
        """The columns of a type; empty if the table has none of that type."""
        return self._columns.get(name, [])


def _declared(name: str) -> str:
    if name == "character":
        return 'character(5) COLLATE "C"'
    if name in {"text", "character varying", "name", "text[]", "name[]"}:
        return f'{name} COLLATE "C"'
    return {"bit": "bit varying"}.get(name, name)


def _order(values: Sequence[str], random: Random) -> list[Any]:
    """The values of a column: all of the type, repeated to fill the rows, and one or two NULLs."""
    found: list[Any] = []
    while len(found) < ROWS - 1:
        found += random.sample(values, len(values))
    found = [None, *found[: ROWS - 1]]
    random.shuffle(found)
    return found


class Writer:
    """Writes expressions.

    Args:
        random: what decides.
        sample: the table.
        known: the catalogs' entries.
    """

    def __init__(self, random: Random, sample: Sample, known: Sequence[Entry]) -> None:
        self._random = random
        self._sample = sample
        self._making: dict[str, list[Entry]] = defaultdict(list)
        for entry in known:
            if entry.is_immutable and entry.is_computed and "cstring" not in entry.arguments:
                self._making[entry.result].append(entry)
                if entry.result in _POLYMORPHIC | _ARRAYS:
                    for name in sample.values:
                        if name.endswith("[]") == (entry.result in _ARRAYS):
                            self._making[name].append(entry)

    # One entry ------------------------------------------------------------------------------------

    def calls(self, entry: Entry) -> Iterator[str]:
        """Calls of an entry with columns, with columns and constants, with constants, and with
        constants without a type.
        """
        element = self._random.choice(ELEMENTS)
        types = _instances(entry.arguments, element)
        given = types[:1] if entry.kind == "cast" else types
        if all(self._sample.columns(name) for name in given):
            yield self._written(entry, types, [self._column(name) for name in given])
            for place in range(len(given)) if len(given) > 1 else ():
                chosen = [
                    self._column(name) if other == place else self._constant(name) for other, name in enumerate(given)
                ]
                yield self._written(entry, types, chosen)
            yield self._written(entry, types, [self._constant(name) for name in given])
            mixed = [
                self._random.choice([self._column, self._constant, self._untyped, self._null])(name) for name in given
            ]
            yield self._written(entry, types, mixed)
        if "internal" not in entry.arguments:
            yield self._written(entry, types, [self._untyped(name) for name in given])
            yield self._written(entry, types, ["NULL" for _ in given])
        if entry.kind == "function" and given and self._random.random() < 0.1:
            arguments = [self._untyped(name) for name in given]
            yield f"{entry.name}({', '.join([*arguments[:-1], f'VARIADIC {arguments[-1]}'])})"

    def _written(self, entry: Entry, types: Sequence[str], arguments: Sequence[str]) -> str:
        if entry.kind == "cast":
            return f"({arguments[0]})::{types[1]}"
        if entry.kind == "operator":
            return f"({f' {entry.name} '.join(arguments)})" if len(arguments) == 2 else f"({entry.name} {arguments[0]})"
        if entry.is_variadic and self._random.random() < 0.7:
            arguments = [*arguments[:-1], f"VARIADIC {arguments[-1]}"]
        return f"{entry.name}({', '.join(arguments)})"

    def _column(self, name: str) -> str:
        return self._random.choice(self._sample.columns(name))

    def _constant(self, name: str) -> str:
        if self._random.random() < 0.08:
            return f"NULL::{name}"
        written = literal(self._random.choice(self._sample.values[name]))
        collated = ' COLLATE "C"' if name in {"text", "character varying", "character", "name"} else ""
        return f"({written}::{name}{collated})"

    def _untyped(self, name: str) -> str:
        if name not in self._sample.values and name not in _FOR_ANY:
            return "NULL"  # only the server knows what the input function reads from a constant
        values = [*self._sample.values.get(name, ()), *self._random.sample(ODD_LITERALS, 3)]
        return literal(self._random.choice(values))

    def _null(self, name: str) -> str:
        return "NULL"

    # Nested expressions ---------------------------------------------------------------------------

    def nested(self) -> str:
        """A boolean expression that is nested a few levels deep."""
        return self._expression("boolean", self._random.randint(2, 4))

    def _expression(self, name: str, depth: int) -> str:
        random = self._random
        if depth <= 0 or random.random() < 0.1:
            kinds = [self._column, self._column, self._constant, self._untyped] if self._sample.columns(name) else []
            return random.choice(kinds or [self._untyped])(name)
        if random.random() < 0.3:
            return self._construct(name, depth - 1)
        found = self._making.get(name)
        if not found or random.random() < 0.1:
            return self._column(name) if self._sample.columns(name) else self._untyped(name)
        return self._call(random.choice(found), name, depth - 1)

    def _call(self, entry: Entry, result: str, depth: int) -> str:
        element = result.removesuffix("[]") if entry.result in _POLYMORPHIC | _ARRAYS else self._random.choice(ELEMENTS)
        types = _instances(entry.arguments, element)
        given = types[:1] if entry.kind == "cast" else types
        return self._written(entry, types, [self._expression(name, depth) for name in given])

    def _construct(self, name: str, depth: int) -> str:
        random = self._random
        other = random.choice([*EDGES, "integer", "text"])
        template = random.choice(_CONSTRUCTS + (_CONDITIONS if name == "boolean" else ()))

        def part(hole: re.Match[str]) -> str:
            if hole[1] in _CHOICES:
                return random.choice(_CHOICES[hole[1]])
            return self._expression({"same": name, "other": other}.get(hole[1], hole[1]), depth)

        while _HOLE.search(template):
            template = _HOLE.sub(part, template)
        return f"({template})"


def _instances(names: Sequence[str], element: str) -> list[str]:
    """Concrete types for the pseudo-types of the catalogs."""
    if _RANGES.keys() & set(names):
        element = "integer"
    kinds = {**dict.fromkeys(_POLYMORPHIC, element), **dict.fromkeys(_ARRAYS, f"{element}[]"), **_RANGES}
    return [kinds.get(name, name) for name in names]
