"""Random filters as text. Most are valid, and they use every type that filters have. They have few
parentheses, so that precedence decides. They are written from templates, in which ``{int}`` stands
for any expression of that type.

They are written from templates, in which ``{int}`` stands for any expression of that type.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

DDL: Final = """
    CREATE TYPE mood AS ENUM ('good', 'bad');
    CREATE DOMAIN positive AS int CHECK (value > 0);
    CREATE TYPE pair AS (x int, y text);
    CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
    CREATE FUNCTION same(text, text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 = $2';
    CREATE OPERATOR === (FUNCTION = same, LEFTARG = text, RIGHTARG = text);
    CREATE COLLATION own_collation FROM "C";
    CREATE TABLE t (
        a int PRIMARY KEY, i2 smallint, i8 bigint, g int GENERATED ALWAYS AS (a * 2) STORED, "Odd Name" int, o oid,
        c numeric(10,2), f4 real, f8 double precision, bo bool,
        b text, v varchar(5), bp char(4), n name, ch "char", x text COLLATE "C",
        d date, tm time, tz timetz, tsp timestamp, ts timestamptz, iv interval,
        u uuid, bt bytea, bi bit(3), vb bit varying(5), inet inet, j jsonb, js json, xm xml,
        ar int[], ta text[], va varchar(3)[], p positive, m mood, cc pair
    );
"""
"""The table that the filters use, and user-defined objects."""

_LEAVES: Final = {
    "int": """a i2 i8 g 1 -2 3000000000 '7' (1)""",
    "num": """c f8 f4 a i8 1.5 -2.50 1e3 '1.5' .5""",
    "text": """b v bp n x ch 'x' E'a\\nb' $$q$$ 'it''s' 'x'::varchar(2) U&'\\0061'""",
    "bool": """bo true false NULL 't'""",
    "ints": """ar '{1,2}' ARRAY[1,2] ARRAY[a,i2] '{}'::int[]""",
    "texts": """ta va '{a,b}' ARRAY['x','y'] ARRAY[b,v]""",
    "date": """d date'2020-01-01' '2020-01-01'""",
    "stamp": """tsp ts timestamp'2020-01-01'""",
    "json": """j '{}' '1'::jsonb""",
    "span": """iv interval'1day' '1day'::interval interval'2'hour""",
    "bytes": """bt '\\x00'""",
    "bits": """bi vb B'101' X'1'""",
    "uuid": """u '123e4567-e89b-12d3-a456-426614174000'""",
    "inet": """inet '10.0.0.1' cidr'10.0.0.0/8'""",
    "time": """tm '10:00:00'""",
}
_TEMPLATES: Final = {
    "any": """
        coalesce({same!}, {same!})
        CASE WHEN {bool!} THEN {same!} ELSE {same!} END
        CASE {some!} WHEN {some!} THEN {same!} WHEN {some!} THEN {same!} END
        greatest({same!}, {same!})
        least({same!}, {same!})
        nullif({same!}, {same!})
    """,
    "int": """
        {int} + {int}
        {int} - {int}
        {int} * {int}
        {int} / {int}
        {int} % {int}
        {int} & {int}
        {int} | {int}
        {int} # {int}
        {int} << {int}
        - {int}
        + {int}
        @ {int}
        ~ {int}
        length({text!})
        abs({int!})
        position({text} in {text})
        {num}::int
        CAST({text!} AS int)
        {date} - {date}
        cardinality({ints!})
        array_position({ints!}, {int!})
        {int}::bigint
        mod({int!}, {int!})
    """,
    "num": """
        {num} + {num}
        {num} - {num}
        {num} * {num}
        {num} / {num}
        {num} ^ {num}
        - {num}
        round({num!})
        extract(year from {stamp!})
        extract(epoch from {span!})
        {num}::numeric(8,2)
        {int}::numeric
        {num}::float8
        |/ {num}
        power({num!}, {num!})
        round({num!}::numeric, {int!}::int)
    """,
    "text": """
        {text} || {text}
        {text} || {int}
        lower({text!})
        substring({text!} from {int!}::int for 2)
        trim(leading {text!} from {text!})
        trim({text!} from {text!})
        overlay({text!} placing {text!} from 1)
        {text}::text
        {text}::varchar(3)
        {text}::char(4)
        {text} COLLATE "C"
        {json} ->> {text}
        {json} ->> 1
        md5({text!})
        replace({text!}, {text!}, 'z')
        left({text!}, 2)
        {text}::name
        normalize({text!}, NFKC)
    """,
    "bool": """
        {some} = {some}
        {some} <> {some}
        {some} < {some}
        {some} >= {some}
        {int} <= {num}
        {int} != {num}
        {bool} AND {bool}
        {bool} OR {bool}
        NOT {bool}
        {bool} IS TRUE
        {bool} IS NOT UNKNOWN
        {some} IS NULL
        {some} NOTNULL
        {some} IS DISTINCT FROM {some}
        {some} IS NOT DISTINCT FROM {some}
        {some} BETWEEN {some} AND {some}
        {some} NOT BETWEEN SYMMETRIC {some} AND {some}
        {some} IN ({some!}, {some!}, {some!})
        {some} NOT IN ({some!})
        {text} LIKE {text}
        {text} NOT ILIKE {text} ESCAPE 'x'
        {text} SIMILAR TO {text}
        {text} ~ {text}
        {text} ^@ {text}
        {int} = ANY ({ints!})
        {int} < ALL ({ints!})
        {text} <> ALL ({texts!})
        {text} LIKE ANY ({texts!})
        ({some!}, {int!}) < ({some!}, {num!})
        ({some!}, {int!}) = ({some!}, {num!})
        ROW({some!}, {text!}) IS NOT NULL
        ROW({some!}, {text!}) IS DISTINCT FROM ROW({some!}, {text!})
        ({int!}, {text!}) NOT IN (({int!}, {text!}), ({num!}, {text!}))
        {json} @> {json}
        {json} ? {text}
        {json} ?| {texts}
        {ints} && {ints}
        ({date!}, {date!}) OVERLAPS ({date!}, {span!})
        starts_with({text!}, {text!})
        {text} IS NOT NFKD NORMALIZED
        {inet} <<= {inet}
        {int}::bool
    """,
    "ints": """
        {ints} || {int}
        {ints} || {ints}
        ARRAY[{int!}, {int!}]
        ARRAY[{num!}]::int[]
        ARRAY[{int!}, {text!}]::bigint[]
        array_append({ints!}, {int!})
    """,
    "texts": """
        ARRAY[{text!}, {text!}]
        string_to_array({text!}, ',')
        {texts} || {text}
        {texts}::text[]
        ARRAY[]::text[]
    """,
    "date": """
        {date} + {int}::int
        {stamp}::date
        make_date({int!}::int, 1, 2)
    """,
    "stamp": """
        {stamp} + {span}
        {date} + {span}
        {date} + {time}
        {stamp} AT TIME ZONE 'UTC'
        date_trunc('day', {stamp!})
        {stamp}::timestamp(2)
    """,
    "json": """
        {json} -> {text}
        {json} -> {int}::int
        {json} #> {texts}
        {json} || {json}
        {json} - {text}
        jsonb_set({json!}, {texts!}, {json!})
        jsonb_extract_path({json!}, {text!}, {text!})
    """,
    "span": """
        {span} * {num}
        {span} + {span}
        - {span}
        {time} - {time}
        make_interval({int!}::int, {int!}::int)
        {span}::interval hour to minute
    """,
    "bytes": """
        {bytes} || {bytes}
        substring({bytes!} from 1)
        decode({text!}, 'hex')
    """,
    "bits": """
        {bits} & {bits}
        {bits} || {bits}
        {int}::bit(4)
        ~ {bits}
    """,
    "uuid": "",
    "inet": """
        {inet} + {int}
        set_masklen({inet!}, 8)
    """,
    "time": """
        {time} + {span}
        {stamp}::time
        {time}::time(1)
    """,
}
_LINES: Final = {kind: [line.strip() for line in text.strip().splitlines()] for kind, text in _TEMPLATES.items()}
_HOLE: Final = re.compile(r"\{(\w+)(!?)\}")


def random_filter(random: Random) -> str:
    """A filter over the table of :data:`DDL`."""
    return _expression(random, "bool", random.randint(2, 4))


def _expression(random: Random, kind: str, depth: int) -> str:
    lines = _LINES[kind]
    if depth == 0 or not lines or random.random() < 0.2:
        return random.choice(_LEAVES[kind].split())
    template = random.choice(_LINES["any"] if random.random() < 0.15 else lines)
    some = random.choice([*_LEAVES, "int", "num", "text"])

    def fill(hole: re.Match[str]) -> str:
        wanted = {"same": kind, "some": some}.get(hole[1], hole[1])
        text = _expression(random, wanted, depth - 1)
        # Where the template has parentheses, precedence has nothing to decide.
        return f"({text})" if not hole[2] and random.random() < 0.25 else text

    return _HOLE.sub(fill, template)
