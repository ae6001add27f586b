"""Holds PostgreSQL's catalogs in memory: the built-in objects of a version, and the objects that
users have added to a publisher.

If the publisher's version is not recorded, the newest recorded version before it is used. An older
version contains nothing that the publisher lacks, whereas a newer one might. Versions before 15
have no row filters; for them, version 15 defines the meaning of a filter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Final

from subscriber.filters.builtins.catalog_rows import (
    Cast,
    Collation,
    FamilyMember,
    Function,
    Operator,
    OperatorClass,
    Type,
    read_row,
)

RECORDED_VERSIONS: Final = (15, 16, 18)
_KINDS: Final = {
    "type": Type,
    "operator": Operator,
    "function": Function,
    "cast": Cast,
    "opclass": OperatorClass,
    "amop": FamilyMember,
    "collation": Collation,
}
SYSTEM_SCHEMA: Final = "pg_catalog"


class Catalog:
    """The types, operators, functions, casts and collations, found by the rules of PostgreSQL's
    parser.

    Attributes:
        search_path: the schemas that are searched. ``pg_catalog`` is the first unless the search
            path names it.
    """

    def __init__(self, lines: Iterable[str], search_path: tuple[str, ...]) -> None:
        self.search_path = search_path if SYSTEM_SCHEMA in search_path else (SYSTEM_SCHEMA, *search_path)
        self._rows: dict[str, list[list[str]]] = {kind: [] for kind in _KINDS}
        for line in lines:
            kind, *fields = line.split("\t")
            self._rows[kind].append(fields)

    @cached_property
    def types(self) -> dict[int, Type]:
        """The types by OID."""
        return {row.oid: row for row in (read_row(Type, fields) for fields in self._rows["type"])}

    @cached_property
    def functions(self) -> dict[int, Function]:
        """The functions by OID."""
        return {row.oid: row for row in (read_row(Function, fields) for fields in self._rows["function"])}

    @cached_property
    def casts(self) -> dict[tuple[int, int], Cast]:
        """The casts by source and target type."""
        return {(row.source, row.target): row for row in (read_row(Cast, fields) for fields in self._rows["cast"])}

    @cached_property
    def operators(self) -> dict[int, Operator]:
        """The operators by OID."""
        return {row.oid: row for row in (read_row(Operator, fields) for fields in self._rows["operator"])}

    @cached_property
    def _types_by_name(self) -> dict[tuple[str, str], Type]:
        return {(row.schema, row.name): row for row in self.types.values()}

    @cached_property
    def _functions_by_name(self) -> dict[str, list[Function]]:
        found = defaultdict(list)
        for row in self.functions.values():
            found[row.name].append(row)
        return dict(found)

    @cached_property
    def _functions_by_signature(self) -> dict[str, Function]:
        return {self.signature(row): row for row in self.functions.values()}

    @cached_property
    def _operators_by_name(self) -> dict[str, list[Operator]]:
        found = defaultdict(list)
        for row in self.operators.values():
            found[row.name].append(row)
        return dict(found)

    @cached_property
    def _collations(self) -> dict[tuple[str, str], Collation]:
        rows = (read_row(Collation, fields) for fields in self._rows["collation"])
        return {(row.schema, row.name): row for row in rows}

    @cached_property
    def _families(self) -> dict[int, list[FamilyMember]]:
        """The members of btree operator families, by operator."""
        found = defaultdict(list)
        for fields in self._rows["amop"]:
            member = read_row(FamilyMember, fields)
            found[member.operator].append(member)
        return dict(found)

    @cached_property
    def _default_classes(self) -> dict[int, int]:
        """The btree operator families, by the type whose default operator class is in the
        family.
        """
        rows = (read_row(OperatorClass, fields) for fields in self._rows["opclass"])
        return {row.type: row.family for row in rows}

    def find_type(self, schema: str | None, name: str) -> Type | None:
        """Return the type with this name; None if there is none."""
        schemas = self.search_path if schema is None else (schema,)
        return next((self._types_by_name[one, name] for one in schemas if (one, name) in self._types_by_name), None)

    def find_collation(self, schema: str | None, name: str) -> int | None:
        """Return the OID of the collation with this name; None if there is none."""
        schemas = self.search_path if schema is None else (schema,)
        return next((self._collations[one, name].oid for one in schemas if (one, name) in self._collations), None)

    def collation_name(self, oid: int) -> str | None:
        """Return the name of a collation; None if the collation is not known."""
        return next((row.name for row in self._collations.values() if row.oid == oid), None)

    def find_functions(self, schema: str | None, name: str) -> list[tuple[int, Function]]:
        """Return the functions with this name, each with the index of its schema in the search
        path.
        """
        schemas = self.search_path if schema is None else (schema,)
        rows = self._functions_by_name.get(name, [])
        return [(schemas.index(row.schema), row) for row in rows if row.schema in schemas]

    def find_operators(self, schema: str | None, name: str, *, prefix: bool) -> list[Operator]:
        """Return the operators with this name.

        Of two operators with the same types, the one whose schema comes first in the search path is
        returned.
        """
        schemas = self.search_path if schema is None else (schema,)
        rows = [
            row for row in self._operators_by_name.get(name, []) if row.schema in schemas and (row.left == 0) is prefix
        ]
        found: dict[tuple[int, int], Operator] = {}
        for row in sorted(rows, key=lambda row: schemas.index(row.schema)):
            found.setdefault((row.left, row.right), row)
        return list(found.values())

    def signature(self, function: Function) -> str:
        """Return ``name(type,type)``, with the schema if that is not ``pg_catalog``."""
        schema = "" if function.schema == SYSTEM_SCHEMA else function.schema + "."
        names = (self.types[oid].name if oid in self.types else str(oid) for oid in function.arguments)
        return f"{schema}{function.name}({','.join(names)})"

    def function_of(self, signature: str) -> Function:
        """Return the function with this signature. The signature must come from an analysis."""
        return self._functions_by_signature[signature]

    def interpretations(self, operator: int) -> set[tuple[int, int]]:
        """Return the btree operator families and strategies of an operator.

        Strategy 6 is ``<>``, the negator of an ``=`` (``get_op_index_interpretation``).
        """
        found = {(member.family, member.strategy) for member in self._families.get(operator, ())}
        if found:
            return found
        negator = self.operators[operator].negator
        return {(member.family, 6) for member in self._families.get(negator, ()) if member.strategy == 3}

    def family_operator(self, family: int, strategy: int, left: int, right: int) -> Operator | None:
        """Return the operator of a btree operator family for a strategy and these types."""
        for members in self._families.values():
            for member in members:
                if (member.family, member.strategy, member.left, member.right) == (family, strategy, left, right):
                    return self.operators[member.operator]
        return None

    def default_family(self, type_oid: int) -> int | None:
        """Return the family of the default btree operator class of exactly this type."""
        return self._default_classes.get(type_oid)


def catalog_of(server_version: int, own_objects: str = "", search_path: tuple[str, ...] = ("public",)) -> Catalog:
    """Return the catalog of a server.

    Args:
        server_version: the version number, as libpq reports it.
        own_objects: the objects that users have added, as lines (see
            :func:`.catalog_query.own_objects`).
        search_path: the schemas in which unqualified names are searched.
    """
    major = server_version // 10000
    recorded = max((version for version in RECORDED_VERSIONS if version <= major), default=RECORDED_VERSIONS[0])
    return _catalog(recorded, own_objects, search_path)


@lru_cache(maxsize=8)
def _catalog(recorded: int, own_objects: str, search_path: tuple[str, ...]) -> Catalog:
    return Catalog([*recorded_lines(recorded), *own_objects.splitlines()], search_path)


def recorded_lines(major: int) -> list[str]:
    """Return the lines of a recorded version, as :func:`.catalog_query.built_in_objects` lists
    them.
    """
    lines = []
    for line in (files(__package__) / "objects.tsv").read_text(encoding="utf-8").splitlines():
        versions, _, rest = line.partition("\t")
        if not versions or str(major) in versions.split(","):
            lines.append(rest)
    return lines
