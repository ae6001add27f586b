"""Properties of types, constants as text, and schemas (``lsyscache.c`` and ``format_type.c``).

Errors of constants quote the constant, as PostgreSQL's messages do. This discloses no data, because
the user who receives the message wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from subscriber.base.errors import DataException, RowFilterError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.builtin_catalog import SYSTEM_SCHEMA, Catalog, CatalogType
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.postgres.types.byte_strings import bit_digits
from subscriber.postgres.types.integers import int4in
from subscriber.postgres.types.oids import INTERVAL_FIELDS, with_modifier
from subscriber.postgres.types.older_inputs import input_of
from subscriber.postgres.types.registry import form_of


@contextmanager
def shown_constant() -> Iterator[None]:
    """Replace an error of an input function by one that quotes the text."""
    try:
        yield
    except DataException as error:
        raise RowFilterError(
            error.quoting or error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
        ) from None


def checked_constant(node: tree.Const, major: int) -> tree.Const:
    """A constant that the input function of its type accepts, as PostgreSQL checks during analysis.

    It has the text that the output function prints if another version would read its text in
    another way. A constant of a type that the subscriber cannot read is not checked.
    """
    form, read = form_of(node.type_oid), input_of(node.type_oid, major)
    if form is None or read is None or node.text is None:
        return node
    with shown_constant():
        value = read(node.text, node.type_modifier)
    return node if read == form.from_text else replace(node, text=form.to_text(value))


def output_text(node: tree.Const) -> str:
    """The constant as its type prints it, or as written, if the type cannot be read."""
    assert node.text is not None
    form = form_of(node.type_oid)
    if form is None:
        return node.text
    with shown_constant():
        return form.to_text(form.from_text(node.text, node.type_modifier))


def bits_of(constant: str) -> str:
    try:
        return bit_digits(constant)
    except DataException as error:
        raise UsageError(error.quoting or error.message, sqlstate=error.sqlstate) from None


class Schemas:
    def __init__(self, tables: PublisherTables) -> None:
        self._schemas = {*tables.schemas, "pg_catalog", "information_schema"}

    def of(self, names: tuple[str, ...]) -> str | None:
        """``LookupExplicitNamespace``; None if the name is written without a schema."""
        schema = names[-2] if len(names) > 1 else None
        if schema is not None and schema not in self._schemas:
            raise UsageError(f'schema "{schema}" does not exist', sqlstate="3F000")
        return schema


BOOL, BYTEA, INT8, INT4, TEXT, OID, FLOAT8, UNKNOWN = 16, 17, 20, 23, 25, 26, 701, 705
BPCHAR, VARCHAR, INTERVAL, BIT, VARBIT, NUMERIC, RECORD = 1042, 1043, 1186, 1560, 1562, 1700, 2249
ANY, ANYARRAY, ANYELEMENT, ANYNONARRAY, ANYENUM, ANYRANGE, ANYMULTIRANGE = 2276, 2277, 2283, 2776, 3500, 3831, 4537
ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYCOMPATIBLENONARRAY, ANYCOMPATIBLERANGE = 5077, 5078, 5079, 5080
ANYCOMPATIBLEMULTIRANGE = 4538

_VECTORS: Final = frozenset({22, 30})
_NAMES: Final = {
    "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
    "bool": "boolean", "char": '"char"', "bpchar": "character", "varchar": "character varying",
    "varbit": "bit varying", "time": "time without time zone", "timetz": "time with time zone",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
}  # fmt: skip
_FULL_PRECISION: Final = 0xFFFF


class Types:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def get(self, oid: int) -> CatalogType:
        return self.catalog.types[oid]

    def base(self, oid: int) -> int:
        """``getBaseType``."""
        return self.base_and_modifier(oid, -1)[0]

    def base_and_modifier(self, oid: int, modifier: int) -> tuple[int, int]:
        """``getBaseTypeAndTypmod``."""
        while (found := self.catalog.types.get(oid)) is not None and found.kind == "d":
            oid, modifier = found.base, found.type_modifier
        return oid, modifier

    def element(self, oid: int) -> int:
        """``get_element_type`` of a true array type; 0 for any other type."""
        found = self.catalog.types.get(oid)
        return found.element if found else 0

    def base_element(self, oid: int) -> int:
        """``get_base_element_type`` of an array type, or of a domain over one."""
        return self.element(self.base(oid))

    def array(self, oid: int) -> int:
        """``get_array_type``."""
        return self.get(oid).array

    def collation(self, oid: int) -> int:
        """``get_typcollation``."""
        return self.get(oid).collation

    def category(self, oid: int) -> str:
        """``TypeCategory``."""
        return self.get(oid).category

    def is_preferred(self, category: str, oid: int) -> bool:
        """``IsPreferredType``."""
        found = self.get(oid)
        return found.preferred and found.category == category

    def is_row(self, oid: int) -> bool:
        """``type_is_rowtype``."""
        return oid == RECORD or self.get(self.base(oid)).kind == "c"

    # Names ----------------------------------------------------------------------------------------

    def name(self, oid: int) -> str:
        """``format_type_be``."""
        return self._name(oid, None)

    def name_with_modifier(self, oid: int, modifier: int) -> str:
        """``format_type_with_typemod``: a name that is read as type and modifier."""
        return self._name(oid, modifier)

    def _name(self, oid: int, modifier: int | None) -> str:
        if oid not in self.catalog.types:
            return "???"
        found = self.get(oid)
        if found.element and oid not in _VECTORS:
            return self._name(found.element, modifier) + "[]"
        if found.schema != SYSTEM_SCHEMA:
            visible = self.catalog.find_type(None, found.name) == found
            name = quote_identifier(found.name, self.catalog.major)
            return name if visible else f"{quote_identifier(found.schema, self.catalog.major)}.{name}"
        if modifier is not None and modifier < 0 and oid in (BIT, BPCHAR):
            return '"bit"' if oid == BIT else "bpchar"
        name = _NAMES.get(found.name, found.name)
        return name if modifier is None or modifier < 0 else with_modifier(oid, name, modifier)


# Type modifiers -----------------------------------------------------------------------------------


def type_modifier(found: CatalogType, name: str, values: tuple[str, ...]) -> int:
    """``typmodin``; UsageError is 42601 where the type has none, 22023 for wrong values."""
    if found.oid in (BPCHAR, VARCHAR):
        return _length("char" if found.oid == BPCHAR else "varchar", values, 10485760) + 4
    if found.oid in (BIT, VARBIT):
        return _length("bit" if found.oid == BIT else "varbit", values, 83886080)
    if found.oid == NUMERIC:
        return _numeric(values)
    if found.oid == INTERVAL:
        return _interval(values)
    if found.oid in (1083, 1114, 1184, 1266):
        return _precision(found, values)
    raise UsageError(f'type modifier is not allowed for type "{name}"', sqlstate="42601")


def _integers(values: tuple[str, ...]) -> list[int]:
    with shown_constant():
        return [int4in(value) for value in values]


def _length(name: str, values: tuple[str, ...], most: int) -> int:
    numbers = _integers(values)
    if len(numbers) != 1:
        raise UsageError("invalid type modifier", sqlstate="22023")
    if numbers[0] < 1:
        raise UsageError(f"length for type {name} must be at least 1", sqlstate="22023")
    if numbers[0] > most:
        raise UsageError(f"length for type {name} cannot exceed {most}", sqlstate="22023")
    return numbers[0]


def _numeric(values: tuple[str, ...]) -> int:
    numbers = _integers(values)
    if len(numbers) not in (1, 2):
        raise UsageError("invalid NUMERIC type modifier", sqlstate="22023")
    precision, scale = (*numbers, 0)[:2]
    if not 1 <= precision <= 1000:
        raise UsageError(f"NUMERIC precision {precision} must be between 1 and 1000", sqlstate="22023")
    if not -1000 <= scale <= 1000:
        raise UsageError(f"NUMERIC scale {scale} must be between -1000 and 1000", sqlstate="22023")
    return (precision << 16 | scale & 0x7FF) + 4


def _interval(values: tuple[str, ...]) -> int:
    numbers = _integers(values)
    if numbers and numbers[0] != 0x7FFF and numbers[0] not in INTERVAL_FIELDS:
        raise UsageError("invalid INTERVAL type modifier", sqlstate="22023")
    if len(numbers) == 1:
        return -1 if numbers[0] == 0x7FFF else numbers[0] << 16 | _FULL_PRECISION
    if len(numbers) != 2:
        raise UsageError("invalid INTERVAL type modifier", sqlstate="22023")
    if numbers[1] < 0:
        raise UsageError(f"INTERVAL({numbers[1]}) precision must not be negative", sqlstate="22023")
    return numbers[0] << 16 | min(numbers[1], 6)


def _precision(found: CatalogType, values: tuple[str, ...]) -> int:
    numbers = _integers(values)
    if len(numbers) != 1:
        raise UsageError("invalid type modifier", sqlstate="22023")
    zone = " WITH TIME ZONE" if found.name.endswith("tz") else ""
    name = "TIMESTAMP" if found.name.startswith("timestamp") else "TIME"
    if numbers[0] < 0:
        raise UsageError(f"{name}({numbers[0]}){zone} precision must not be negative", sqlstate="22023")
    return min(numbers[0], 6)
