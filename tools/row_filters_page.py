"""Generates the page ``docs/row-filters.md`` (``make docs``), which lists the immutable built-in
functions of PostgreSQL 18: those that the subscriber computes, and those that it refuses.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from subscriber.postgres.expressions.builtin_catalog import Catalog, Function, catalog_of
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import form_of

_VERSION: Final = 180000
_IMMUTABLE: Final = "i"
_INTERNAL: Final = frozenset({"internal", "cstring", "trigger", "event_trigger", "language_handler", "void"})

_REASONS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "Geometry",
        r"\b(point|box|circle|lseg|line|path|polygon)\b",
        "distances and intersections depend on EPSILON and on how the C library rounds at each step",
    ),
    (
        "Text search",
        r"\b(tsvector|tsquery|gtsvector|regconfig|regdictionary)\b",
        "documents depend on dictionaries, which are files and catalogs of the server",
    ),
    (
        "Internal functions of ranges",
        r"range\b",
        "they serve types, indexes and aggregates",
    ),
    ("Money", r"\bmoney\b", "its text depends on lc_monetary of the session"),
    (
        "Names of objects and access rights",
        r"\b(reg\w+|aclitem|oidvector|int2vector|cid|xid|xid8|tid|pg_snapshot|txid_snapshot|pg_node_tree)\b",
        "their values refer to the catalogs, or describe the server and not the row",
    ),
    (
        "Records and enums",
        r"\b(record|anyenum)\b",
        "the types of the fields and the order of the labels are defined at the publisher",
    ),
    (
        "XML and jsonpath",
        r"\b(xml|jsonpath)\b",
        "the server has a parser and an engine for each of these languages",
    ),
    (
        "Hash functions",
        r"^(hash|\w+_hash)",
        "they serve hash indexes and partitions; those of most types are computed",
    ),
    (
        "Comparison functions",
        r"^(\w+cmp|bt\w+|gin_\w+|jsonb_cmp|uuid_cmp|byteacmp|network_cmp)\b",
        "only the sign of their result is defined; use the operators",
    ),
    (
        "Support functions of aggregates and windows",
        r"(_accum|_combine|_inv|_sum|_avg|transfn|in_range|statefunc|int\dinc|int8dec|corr|covar|regr|stddev|var_)",
        "they compute states of aggregates",
    ),
    (
        "Input, output and type modifiers",
        r"(send|recv|out|typmodin|typmodout)\(",
        "they convert between values and text, or depend on encodings",
    ),
)
"""Refused families: name, expression over signatures with result types, reason."""

_OTHER_REASON: Final = "they are not implemented yet"

_HEAD: Final = """\
# Row filters that the subscriber evaluates

`make docs` generates this page from the registry of functions with which filters are compiled.

[Emulated publications](publications.md) are evaluated by the subscriber. Their `WHERE` takes the expressions that PostgreSQL 18 takes:
columns, constants, immutable built-in operators and functions, `AND`, `OR`, `NOT`, `CASE`, `COALESCE`, `NULLIF`, `GREATEST`, `LEAST`,
`IS [NOT] NULL`, `IS [NOT] TRUE | FALSE | UNKNOWN`, `IS [NOT] DISTINCT FROM`, `IN`, `BETWEEN`, `LIKE`, `ILIKE`, `SIMILAR TO`, regular
expressions, `ANY` and `ALL` over arrays, row comparisons, `ARRAY[...]`, casts other than those that convert through text, and `COLLATE`.
Everything else is refused with PostgreSQL's own error.

Of what PostgreSQL takes, some is computed here, with the server's results and errors. The rest is refused by name when the publication is
created. The lists below say which is which.

**Collations.** An operator or function marked with `*` compares or changes case. It is computed for collations that do so by bytes ("C",
"POSIX"). All others are computed for every collation: `=`, `<>`, `IN`, `LIKE`, `IS DISTINCT FROM`, `starts_with`, `length`. If the encoding of
the database is UTF8, more is computed for the collation of the database and those of its columns:

| Collation | `<`, `BETWEEN`, `GREATEST`, … | `lower`, `upper`, `ILIKE` | `initcap`, `~*`, `\\w` |
|---|---|---|---|
| `C.UTF-8` of the builtin provider | computed | computed for PostgreSQL 18 | refused |
| `PG_UNICODE_FAST` of the builtin provider, libc's `C.UTF-8` | computed | refused | refused |
| ICU | with the ICU library of this machine | with the ICU library of this machine | refused |
| other collations of libc | with the glibc of this machine | with the glibc of this machine | refused |

The library must have the version that the publisher's server uses (`pg_collation_actual_version`), and a locale of glibc must be installed.
Otherwise the filter is refused when the publication is created, and the message says both versions. If Spark has executors on other machines,
these need the library, too. A distribution of Linux may change the locales of glibc without changing its version. If publisher and subscriber
have different distributions, write `COLLATE "C"` after the value.

**Regular expressions.** A constant regular expression that cannot be evaluated exactly is refused when the publication is created,
also if only some rows use it, as in a `CASE`. These are basic and extended expressions of POSIX (`(?b)`, `(?e)`), and very large ones. An
expression that comes from a column is read for each row; a row with such an expression is an error (0A000). A pattern of `SIMILAR TO` is
refused if its brackets mean something else in PostgreSQL's minor releases up to August 2025.

**jsonb.** The order of jsonb documents (`<`) depends on the collation of the database, whatever the expression says. It is computed for
databases whose collation compares by bytes, and refused for others.

**Hash functions.** `hashtext` and its kind are computed for a publisher whose machine has the byte order that is usual today (little-endian).

**Time zones.** Time zones are those of the tz database in the Python package `tzdata`, the abbreviations of PostgreSQL's set `Default`, and
POSIX specifications. They are the same on every machine. A PostgreSQL server has another release of the tz database, its own or the system's.
The two differ where a government has changed its rules in between, and for years before 1970 in the zones that the maintainers have merged.
A constant zone that only some servers have (`posix/Europe/Berlin`) is refused when the publication is created; such a zone in a column is an
error for its row (0A000).

**Session settings.** Filters are evaluated, and constants are read, as in a session with `TimeZone = 'UTC'`, `DateStyle = 'ISO, MDY'` and
`IntervalStyle = 'postgres'`. A constant has the notations of the publisher's version: `0x1F` and `1_000` are numbers from PostgreSQL 16 on,
`infinity` is an interval from 17 on. A notation that older versions read differently is refused.
"""


def row_filters_page() -> str:
    catalog = catalog_of(_VERSION)
    parts = (_types(catalog), _operators(catalog), _functions(catalog), _refused(catalog))
    return "\n".join([_HEAD, *(line for part in parts for line in (*part, ""))]).rstrip("\n") + "\n"


def _types(catalog: Catalog) -> Iterator[str]:
    base = [
        one.oid for one in catalog.types.values() if one.schema == "pg_catalog" and not _is_pseudo(catalog, one.oid)
    ]
    known = sorted({type_name(oid) for oid in base if form_of(oid) is not None})
    refused = sorted({type_name(oid) for oid in base if form_of(oid) is None and oid in BUILT_IN_TYPES})
    scalars = [name for name in known if not name.endswith("[]")]
    arrays = [name for name in known if name.endswith("[]")]
    yield "## Types of columns and constants"
    yield ""
    yield f"Computed: {_listed(scalars)}."
    yield ""
    yield f"Arrays: {_listed(arrays)}."
    yield ""
    yield f"Refused: {_listed([name for name in refused if not name.endswith('[]')])}, arrays of these, and all user-defined types."


def _operators(catalog: Catalog) -> Iterator[str]:
    computed: dict[str, list[str]] = defaultdict(list)
    refused: dict[str, list[str]] = defaultdict(list)
    for operator in catalog.operators.values():
        function = catalog.functions.get(operator.function)
        if function is None or function.volatility != _IMMUTABLE:
            continue
        found = FUNCTIONS.get(catalog.signature(function))
        types = [_name(catalog, oid) for oid in (operator.left, operator.right) if oid]
        what = types[0] if len(set(types)) == 1 and operator.left else ", ".join(types)
        if not operator.left:
            what = f"before {what}"
        if found is None:
            refused[operator.name].append(what)
        else:
            computed[operator.name].append(what + ("*" if found.bytewise else ""))
    yield "## Operators"
    yield ""
    yield "Where two types stand, the first is that of the left operand."
    yield ""
    yield "| Operator | Computed for | Refused for |"
    yield "|---|---|---|"
    for name in sorted({*computed, *refused}):
        shown = name.replace("|", "\\|")
        yield f"| `{shown}` | {'; '.join(sorted(computed[name]))} | {'; '.join(sorted(refused[name]))} |"


def _functions(catalog: Catalog) -> Iterator[str]:
    behind_operators = {operator.function for operator in catalog.operators.values()}
    computed: dict[str, list[str]] = defaultdict(list)
    for function in catalog.functions.values():
        found = FUNCTIONS.get(catalog.signature(function))
        if found is None or function.oid in behind_operators or not _is_for_people(catalog, function):
            continue
        arguments = ", ".join(_name(catalog, oid) for oid in function.arguments)
        computed[function.name].append(f"({arguments})" + ("*" if found.bytewise else ""))
    yield "## Functions and casts"
    yield ""
    yield "A cast is listed as the function with the name of its type. A function that is not listed is refused."
    yield ""
    yield "| Function | Computed for |"
    yield "|---|---|"
    for name, signatures in sorted(computed.items()):
        yield f"| `{name}` | {' '.join(sorted(signatures))} |"


def _refused(catalog: Catalog) -> Iterator[str]:
    """The lines of the table of refused functions, grouped by the reason."""
    families: dict[tuple[str, str], set[str]] = defaultdict(set)
    for function in catalog.functions.values():
        signature = catalog.signature(function)
        if FUNCTIONS.get(signature) is None and _is_for_people(catalog, function):
            families[_reason(f"{signature} {_name(catalog, function.result)}")].add(function.name)
    yield "## What is refused, and why"
    yield ""
    yield "Operators are listed by the functions that implement them. `VARIADIC` with an array is refused for functions with an argument of the pseudo-type `any`."
    yield ""
    yield "| What | Why | Functions |"
    yield "|---|---|---|"
    order = [name for name, _, _ in _REASONS]
    for (name, why), functions in sorted(
        families.items(), key=lambda family: [*order, family[0][0]].index(family[0][0])
    ):
        yield f"| {name} | {why} | {_listed(sorted(functions))} |"


def _reason(described: str) -> tuple[str, str]:
    """Family and reason of a refused function, given as signature, space and result type."""
    return next(
        ((name, why) for name, pattern, why in _REASONS if re.search(pattern, described)), ("Others", _OTHER_REASON)
    )


def _is_for_people(catalog: Catalog, function: Function) -> bool:
    """Whether users call it: it is immutable, and does not only serve an index or a type."""
    names = {catalog.types[oid].name for oid in (*function.arguments, function.result) if oid in catalog.types}
    return (
        function.volatility == _IMMUTABLE
        and function.kind == "f"
        and not function.returns_set
        and names.isdisjoint(_INTERNAL)
    )


def _name(catalog: Catalog, oid: int) -> str:
    """The name of a type as SQL writes it; for a pseudo-type, the name in ``pg_type``."""
    found = catalog.types.get(oid)
    return found.name if found is not None and _is_pseudo(catalog, oid) else type_name(oid)


def _is_pseudo(catalog: Catalog, oid: int) -> bool:
    return catalog.types[oid].category in ("P", "X")


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(row_filters_page())
