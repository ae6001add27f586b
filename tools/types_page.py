"""The text of ``docs/types.md``, which the targets compute without a connection; ``make docs``
writes it. A cell is the result of :meth:`DDL.column_type`, marked *text* if the column has the
storage of a column for ``text``. Its notes list those values of :data:`_SAMPLES` that
:meth:`Values.bind_values` refuses for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.types.binary_forms import read_forms
from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import decode_column
from subscriber.targets.conversion import SOURCES
from subscriber.targets.dialects import open_target
from subscriber.targets.target import Target
from subscriber.targets.target_table import TargetColumn

_TARGETS: Final = (
    "sqlite:///target.db",
    "duckdb:///target.duckdb",
    "mariadb://user@host/target",
    "postgresql://user@host/target",
)
_TEXT: Final = 25
_TEXTS: Final = frozenset({_TEXT, 1043, 1042, 19, 18})
"""Types whose values are texts: a column that stores them as text needs no mark."""
_NUMERIC, _VARCHAR, _BPCHAR = 1700, 1043, 1042
_OF_A_USER: Final = 16_384


class _Sample(NamedTuple):
    """A value that some database cannot store, and the description of such values."""

    kind: str
    text: str


_NOT_A_NUMBER: Final = (_Sample("NaN", "NaN"), _Sample("the infinities", "-Infinity"))
_MOMENTS: Final = (
    _Sample("the infinities", "infinity"),
    _Sample("years before Christ", "0044-03-15{} BC"),
    _Sample("years after 9999", "10000-01-01{}"),
    _Sample("what is later than 294247-01-10 04:00:54.775806", "294276-12-31{}"),
)
_SAMPLES: Final[dict[int, tuple[_Sample, ...]]] = {
    700: _NOT_A_NUMBER,
    701: _NOT_A_NUMBER,
    _NUMERIC: _NOT_A_NUMBER,
    1082: tuple(_Sample(kind, text.format("")) for kind, text in _MOMENTS[:3]),
    1083: (_Sample("24:00:00", "24:00:00"),),
    1114: tuple(_Sample(kind, text.format(" 00:00:00")) for kind, text in _MOMENTS),
    1184: tuple(_Sample(kind, text.format(" 00:00:00+00")) for kind, text in _MOMENTS),
}
_LONG: Final = {
    17: (_Sample("more than 255 bytes", "\\x" + "00" * 256),),
    _TEXT: (_Sample("more than 255 characters", "x" * 256),),
    _VARCHAR: (_Sample("more than 255 characters", "x" * 256),),
    _NUMERIC: (_Sample("more than 255 characters", "1" * 256),),
    _OF_A_USER: (_Sample("more than 255 characters", "x" * 256),),
}

_HEAD: Final = """\
# Types

`make docs` generates this page from the code that replicates values.

The tables show how [`create_tables`](tables.md#create_tables) declares a column of each PostgreSQL type, so that every value comes back as
it was:

- Without a mark, the target has a type with the same values.
- *text* means that the column stores the text that PostgreSQL's output function writes (dates in ISO format, times in UTC, bytea in hex).
  The text is exact as well, but the target sorts, compares and computes with it as with any text.

A note names the values that a column cannot store. Such a value is never changed: the subscription stops with the SQLSTATE of the note. The
error names relation, column and LSN, but not the value. A text of PostgreSQL never contains the character with code 0, so no target needs to
store it.

A table that you have created yourself may declare its columns in other ways. A column whose type would silently change values is refused when
the first change for its table arrives, with a hint how to declare it.
"""
_CONVERSIONS: Final = """\
## Columns of another type

As with PostgreSQL, a column may have another type than the publisher's. Its value is then what PostgreSQL's input function makes of the
publisher's text. If the input function raises an error (22P02 or 22003), the subscription stops with it. A number that PostgreSQL would round
is refused with 22003. The table lists the pairs for which this is done; other columns are refused as above. A PostgreSQL target reads all
texts itself.

| The target's column | The publisher's |
|---|---|"""
_BINARY_FORMS: Final = """\

## Values in binary format

A subscription with `binary = true` receives values in the binary format of their type's send function. A PostgreSQL target then accepts a value only
if the column reads this format, as PostgreSQL's subscriber does; NULL fits every column. Otherwise the subscription stops, with PostgreSQL's
error where there is one (08P01, 22P03, 42804, 42883). It stops with 22P03 also where PostgreSQL would silently read the bytes as another value,
such as those of a `bigint` as a `timestamp`. The initial copy from PostgreSQL 16 and later follows the same rule.

A column reads the format of its own type, and of the types that the table lists for it. A domain counts as its base type; enums and text types
of extensions (`citext`) count as `text`. A value that is refused in binary format can be sent as text, after
`ALTER SUBSCRIPTION … SET (binary = false)`. Columns of other databases have no binary format. There, values are converted as in the table above,
whichever format they had.

| The publisher's | Read by columns of |
|---|---|"""


def types_page() -> str:
    targets = [open_target(url) for url in _TARGETS]
    try:
        return "\n".join([_HEAD, *_table("Built-in types", _built_in(), targets), *_table("Other types", _OTHERS, targets),
                          *_table("Columns of a key", _IN_KEYS, targets, key=True), _CONVERSIONS, *_conversions(), _BINARY_FORMS, *_binary_forms()]) + "\n"  # fmt: skip
    finally:
        for target in targets:
            target.close()


class _Row(NamedTuple):
    type_oid: int
    type_name: str
    shown: str


_OTHERS: Final = tuple(
    _Row(_OF_A_USER, name, shown)
    for name, shown in (
        ("mood", "an enum"),
        ("percentage", "a domain"),
        ("pair", "a composite type"),
        ("hstore", "an extension's type (`hstore`, `citext`, …)"),
    )
)
_IN_KEYS: Final = (
    _Row(_TEXT, "text", "`text`"),
    _Row(_VARCHAR, "character varying(300)", "`character varying(300)`"),
    _Row(17, "bytea", "`bytea`"),
    _Row(_NUMERIC, "numeric", "`numeric`"),
    _Row(_OF_A_USER, "mood", "every type that is stored as text"),
)


def _built_in() -> Iterator[_Row]:
    for oid in sorted(BUILT_IN_TYPES - ELEMENT_TYPES.keys(), key=type_name):
        name = type_name(oid)
        yield _Row(oid, name, f"`{name}`")
        sizes = {_NUMERIC: ("(10,2)", "(50,20)", "(100,50)"), _VARCHAR: ("(20)", "(300)"), _BPCHAR: ("(20)", "(300)")}
        for size in sizes.get(oid, ()):
            yield _Row(oid, f"{name}{size}", f"`{name}{size}`")
    array = next(array for array, element in ELEMENT_TYPES.items() if element == _TEXT)
    yield _Row(array, "text[]", "arrays of each of these")


def _table(title: str, rows: Iterable[_Row], targets: list[Target], *, key: bool = False) -> Iterator[str]:
    notes: dict[str, int] = {}
    yield f"## {title}"
    yield ""
    yield f"| PostgreSQL type | {' | '.join(target.capabilities.database for target in targets)} |"
    yield "|---" * (len(targets) + 1) + "|"
    for row in rows:
        yield f"| {row.shown} | {' | '.join(_cell(target, row, notes, key=key) for target in targets)} |"
    yield ""
    for note, number in notes.items():
        yield f"{number}. {note}"
    if notes:
        yield ""


def _cell(target: Target, row: _Row, notes: dict[str, int], *, key: bool) -> str:
    declared = target.ddl.column_type(row.type_oid, row.type_name, key=key)
    column = TargetColumn("c", declared, target.ddl.storage(declared))
    target.values.check_column(row.type_oid, column)
    texts = {target.ddl.storage(target.ddl.column_type(_TEXT, "text", key=in_key)) for in_key in (False, True)}
    mark = " *text*" if column.storage in texts and row.type_oid not in _TEXTS and declared != row.type_name else ""
    samples = _samples(row, key=key)
    numbers = [
        notes.setdefault(note, len(notes) + 1) for note in dict.fromkeys(_notes(target, row.type_oid, column, samples))
    ]
    return f"`{_short(declared)}`{mark}" + "".join(f" ({number})" for number in numbers)


def _samples(row: _Row, *, key: bool) -> tuple[_Sample, ...]:
    if row.type_oid == _NUMERIC and "(" in row.type_name:
        return _NOT_A_NUMBER[:1]  # a numeric with a precision has no infinities
    return (_LONG if key else _SAMPLES).get(row.type_oid, ())


def _notes(target: Target, type_oid: int, column: TargetColumn, samples: Iterable[_Sample]) -> Iterator[str]:
    refused: dict[str, list[str]] = {}
    for kind, text in samples:
        raw = pa.array([text.encode()], pa.binary())
        decoded = decode_column(type_oid, raw, binary=False, column=1)
        try:
            (bound,) = target.values.bind_values(type_oid, column, decoded)
        except UnsupportedValue as error:
            refused.setdefault(error.sqlstate, []).append(kind)
            continue
        if isinstance(bound, str) and pa.types.is_floating(decoded.type) and not target.capabilities.postgresql_text:
            yield f"{kind} is the text `{bound}`."
        elif isinstance(bound, str) and bound == f"{text}:00":
            yield "The zone is written as `+00:00`."
    for sqlstate, kinds in refused.items():
        yield f"Refused with {sqlstate}: {', '.join(kinds)}."
    if type_oid in (700, 701) and not target.capabilities.signed_zero:
        yield "The sign of a negative zero is lost. PostgreSQL calls the two zeros equal."


def _short(declared: str) -> str:
    """The declaration without character set and collation, which all columns share."""
    return declared.partition(" CHARACTER SET ")[0]


def _conversions() -> Iterator[str]:
    yield "| a text type | every type |"
    for into, sources in SOURCES.items():
        own = ", user-defined types" if _TEXT in sources else ""
        names = ", ".join(f"`{type_name(oid)}`" for oid in sorted(sources - {into}))
        yield f"| `{type_name(into)}` | {names}{own} |"


def _binary_forms() -> Iterator[str]:
    for sent, columns in read_forms():
        yield f"| {_named(sent)} | {_named(columns)} |"


def _named(oids: Iterable[int]) -> str:
    return ", ".join(f"`{type_name(oid)}`" for oid in oids)


if __name__ == "__main__":
    sys.stdout.write(types_page())
