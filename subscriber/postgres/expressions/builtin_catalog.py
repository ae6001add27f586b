"""The catalogs of PostgreSQL: types, operators, functions, casts and collations.

::

    tools/record_builtins.py ──▶ builtin_objects.tsv ─┐
                                                      ├──▶ Catalog
    the publisher ──own_objects──▶ lines ─────────────┘

The SQL of :data:`OBJECTS` lists catalog objects as lines, on PostgreSQL 10 and newer. The built-in
objects of some versions are recorded with it; these have OIDs below 10000 (casts, operator classes
and members of operator families: below 16384). A publisher is asked for the others: the objects of
users, with OIDs from 16384, and the collations that initdb found on the machine.

If the publisher's version is not recorded, the newest recorded version before it is used. An older
version contains nothing that the publisher lacks, whereas a newer one might. Versions before 15
have no row filters; for them, version 15 defines the meaning of a filter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Final, Literal, TypeVar

from subscriber.postgres.types.oids import FIRST_NORMAL_OID

OBJECTS: Final = r"""
WITH visible AS (SELECT n.oid, n.nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_toast|^pg_temp')
SELECT 'type' || E'\t' || concat_ws(E'\t', t.oid, v.nspname, t.typname, t.typtype, t.typcategory, t.typispreferred::int,
         CASE WHEN t.typinput::oid IN (40, 54, 750) THEN t.typelem ELSE 0 END,
         t.typarray, t.typcollation, t.typbasetype, t.typtypmod, coalesce(r.rngsubtype, 0), coalesce({multirange}, 0))
  FROM pg_type t JOIN visible v ON v.oid = t.typnamespace LEFT JOIN pg_range r ON r.rngtypid = t.oid
  WHERE {types} AND t.typisdefined
UNION ALL
SELECT 'operator' || E'\t' || concat_ws(E'\t', o.oid, v.nspname, o.oprname, o.oprleft, o.oprright, o.oprresult, o.oprcode::oid, o.oprnegate)
  FROM pg_operator o JOIN visible v ON v.oid = o.oprnamespace
  WHERE {operators} AND o.oprcode <> 0
UNION ALL
SELECT 'function' || E'\t' || concat_ws(E'\t', p.oid, v.nspname, p.proname, p.proargtypes::text, p.prorettype, {kind},
         p.provolatile, p.proretset::int, p.provariadic, p.pronargdefaults,
         CASE WHEN p.pronargdefaults = 0 THEN '' ELSE coalesce(array_to_string(p.proargnames, ',', ''), '') END,
         CASE WHEN p.pronargdefaults = 0 THEN '' ELSE pg_get_expr(p.proargdefaults, 0) END)
  FROM pg_proc p JOIN visible v ON v.oid = p.pronamespace
  WHERE {functions}
UNION ALL
SELECT 'cast' || E'\t' || concat_ws(E'\t', c.castsource, c.casttarget, c.castfunc, c.castcontext, c.castmethod)
  FROM pg_cast c
  WHERE {casts}
UNION ALL
SELECT 'opclass' || E'\t' || concat_ws(E'\t', c.oid, c.opcintype, c.opcfamily)
  FROM pg_opclass c
  WHERE {opclasses} AND c.opcdefault AND c.opcmethod = 403
UNION ALL
SELECT 'amop' || E'\t' || concat_ws(E'\t', a.oid, a.amopfamily, a.amopstrategy, a.amoplefttype, a.amoprighttype, a.amopopr)
  FROM pg_amop a
  WHERE {amops} AND a.amopmethod = 403 AND a.amoppurpose = 's'
UNION ALL
SELECT 'collation' || E'\t' || concat_ws(E'\t', c.oid, v.nspname, c.collname)
  FROM pg_collation c JOIN visible v ON v.oid = c.collnamespace
  WHERE {collations} AND c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))
"""

_NOT_A_ROW: Final = """NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c')
    AND NOT EXISTS (SELECT FROM pg_type e JOIN pg_class c ON c.oid = e.typrelid WHERE e.oid = t.typelem AND c.relkind <> 'c')"""


def built_in_objects(server_version: int) -> str:
    """The SQL that lists the objects of every server of this version, with fixed OIDs."""
    return _objects(server_version, own=False)


def own_objects(server_version: int) -> str:
    """The SQL that lists the objects of users, and those to which initdb assigned OIDs."""
    return _objects(server_version, own=True)


def _objects(server_version: int, *, own: bool) -> str:
    # initdb assigns OIDs from 10000. Casts and members of operator families have only such OIDs.
    numbered, unnumbered = (">= 10000", f">= {FIRST_NORMAL_OID}") if own else ("< 10000", f"< {FIRST_NORMAL_OID}")
    return OBJECTS.format(
        types=f"t.oid {numbered} AND {_NOT_A_ROW}",
        operators=f"o.oid {numbered}",
        functions=f"p.oid {numbered}",
        casts=f"c.oid {unnumbered}",
        opclasses=f"c.oid {unnumbered}",
        amops=f"a.oid {unnumbered}",
        collations=f"c.oid {numbered}",
        multirange="r.rngmultitypid" if server_version >= 140000 else "0",
        kind="p.prokind"
        if server_version >= 110000
        else "CASE WHEN p.proisagg THEN 'a' WHEN p.proiswindow THEN 'w' ELSE 'f' END",
    )


@dataclass(frozen=True, slots=True)
class CatalogType:
    """A type (``pg_type``). OIDs that there are none of are 0.

    ``kind`` is ``typtype``: b(ase), c(omposite), d(omain), e(num), p(seudo), r(ange), m(ultirange).
    ``element`` is that of an array type, ``array`` the array type of this one. ``base`` and
    ``type_modifier`` are those of the type below a domain; ``subtype`` and ``multirange`` belong to
    a range type.
    """

    oid: int
    schema: str
    name: str
    kind: str
    category: str
    preferred: bool
    element: int
    array: int
    collation: int
    base: int
    type_modifier: int
    subtype: int
    multirange: int


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator (``pg_operator``). The left type is 0 for a prefix operator."""

    oid: int
    schema: str
    name: str
    left: int
    right: int
    result: int
    function: int
    negator: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function (``pg_proc``). ``kind`` is f(unction), a(ggregate), w(indow), p(rocedure), and
    ``volatility`` i(mmutable), s(table), v(olatile).

    ``variadic`` is the element type of a VARIADIC array; 0 for none. ``argument_names`` are read
    only with defaults, "" for none; ``defaults`` are as ``pg_get_expr`` prints them.
    """

    oid: int
    schema: str
    name: str
    arguments: tuple[int, ...]
    result: int
    kind: str
    volatility: str
    returns_set: bool
    variadic: int
    default_count: int
    argument_names: tuple[str, ...]
    defaults: str

    @property
    def is_built_in(self) -> bool:
        """Whether no user created it (rule B25)."""
        return self.oid < FIRST_NORMAL_OID


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast (``pg_cast``); function 0 is none. Contexts: i(mplicit), a(ssignment), e(xplicit);
    methods: f(unction), i(nput and output functions), b(inary coercible).
    """

    source: int
    target: int
    function: int
    context: Literal["i", "a", "e"]
    method: Literal["f", "i", "b"]


@dataclass(frozen=True, slots=True)
class OperatorClass:
    """The default btree operator class of a type (``pg_opclass``)."""

    oid: int
    type: int
    family: int


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A member of a btree operator family (``pg_amop``); strategies 1 to 5 are < <= = >= >."""

    oid: int
    family: int
    strategy: int
    left: int
    right: int
    operator: int


@dataclass(frozen=True, slots=True)
class Collation:
    oid: int
    schema: str
    name: str


_Row = TypeVar("_Row")
_Converter = Callable[[str], object]


def _flag(text: str) -> bool:
    return text == "1"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


_CONVERTERS: Final[dict[type, tuple[_Converter, ...]]] = {
    CatalogType: (int, str, str, str, str, _flag, int, int, int, int, int, int, int),
    Operator: (int, str, str, int, int, int, int, int),
    Function: (int, str, str, _numbers, int, str, str, _flag, int, int, _names, str),
    Cast: (int, int, int, str, str),
    OperatorClass: (int, int, int),
    FamilyMember: (int, int, int, int, int, int),
    Collation: (int, str, str),
}


def read_row(kind: type[_Row], fields: list[str]) -> _Row:
    return kind(*(convert(field) for convert, field in zip(_CONVERTERS[kind], fields, strict=True)))


RECORDED_VERSIONS: Final = (15, 16, 18)
_KINDS: Final = {
    "type": CatalogType,
    "operator": Operator,
    "function": Function,
    "cast": Cast,
    "opclass": OperatorClass,
    "amop": FamilyMember,
    "collation": Collation,
}
SYSTEM_SCHEMA: Final = "pg_catalog"


class Catalog:
    """The catalogs. ``pg_catalog`` is searched first unless the search path names it."""

    def __init__(self, lines: Iterable[str], search_path: tuple[str, ...], major: int) -> None:
        self.major = major
        self.search_path = search_path if SYSTEM_SCHEMA in search_path else (SYSTEM_SCHEMA, *search_path)
        self._rows: dict[str, list[list[str]]] = {kind: [] for kind in _KINDS}
        for line in lines:
            kind, *fields = line.split("\t")
            self._rows[kind].append(fields)

    @cached_property
    def types(self) -> dict[int, CatalogType]:
        return {row.oid: row for row in (read_row(CatalogType, fields) for fields in self._rows["type"])}

    @cached_property
    def functions(self) -> dict[int, Function]:
        return {row.oid: row for row in (read_row(Function, fields) for fields in self._rows["function"])}

    @cached_property
    def casts(self) -> dict[tuple[int, int], Cast]:
        """The casts by source and target type."""
        return {(row.source, row.target): row for row in (read_row(Cast, fields) for fields in self._rows["cast"])}

    @cached_property
    def operators(self) -> dict[int, Operator]:
        return {row.oid: row for row in (read_row(Operator, fields) for fields in self._rows["operator"])}

    @cached_property
    def _types_by_name(self) -> dict[tuple[str, str], CatalogType]:
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
        """The family of the default btree operator class, by type."""
        rows = (read_row(OperatorClass, fields) for fields in self._rows["opclass"])
        return {row.type: row.family for row in rows}

    def find_type(self, schema: str | None, name: str) -> CatalogType | None:
        schemas = self.search_path if schema is None else (schema,)
        return next((self._types_by_name[one, name] for one in schemas if (one, name) in self._types_by_name), None)

    def find_collation(self, schema: str | None, name: str) -> int | None:
        schemas = self.search_path if schema is None else (schema,)
        return next((self._collations[one, name].oid for one in schemas if (one, name) in self._collations), None)

    def collation_name(self, oid: int) -> str | None:
        return next((row.name for row in self._collations.values() if row.oid == oid), None)

    def find_functions(self, schema: str | None, name: str) -> list[tuple[int, Function]]:
        """The functions with this name, each with the index of its schema in the search path."""
        schemas = self.search_path if schema is None else (schema,)
        rows = self._functions_by_name.get(name, [])
        return [(schemas.index(row.schema), row) for row in rows if row.schema in schemas]

    def find_operators(self, schema: str | None, name: str, *, prefix: bool) -> list[Operator]:
        """The operators with this name: of equal types, the first by the search path."""
        schemas = self.search_path if schema is None else (schema,)
        rows = [
            row for row in self._operators_by_name.get(name, []) if row.schema in schemas and (row.left == 0) is prefix
        ]
        found: dict[tuple[int, int], Operator] = {}
        for row in sorted(rows, key=lambda row: schemas.index(row.schema)):
            found.setdefault((row.left, row.right), row)
        return list(found.values())

    def signature(self, function: Function) -> str:
        """``name(type,type)``, with the schema if that is not ``pg_catalog``."""
        schema = "" if function.schema == SYSTEM_SCHEMA else function.schema + "."
        names = (self.types[oid].name if oid in self.types else str(oid) for oid in function.arguments)
        return f"{schema}{function.name}({','.join(names)})"

    def function_of(self, signature: str) -> Function:
        """The function with a signature that comes from an analysis."""
        return self._functions_by_signature[signature]

    def interpretations(self, operator: int) -> set[tuple[int, int]]:
        """``get_op_index_interpretation``: families, strategies; 6 is the negator of ``=``."""
        found = {(member.family, member.strategy) for member in self._families.get(operator, ())}
        if found:
            return found
        negator = self.operators[operator].negator
        return {(member.family, 6) for member in self._families.get(negator, ()) if member.strategy == 3}

    def family_operator(self, family: int, strategy: int, left: int, right: int) -> Operator | None:
        for members in self._families.values():
            for member in members:
                if (member.family, member.strategy, member.left, member.right) == (family, strategy, left, right):
                    return self.operators[member.operator]
        return None

    def default_family(self, type_oid: int) -> int | None:
        """The family of the default btree operator class of exactly this type."""
        return self._default_classes.get(type_oid)


def catalog_of(server_version: int, own_objects: str = "", search_path: tuple[str, ...] = ("public",)) -> Catalog:
    """The catalog of a server, with the lines that :func:`own_objects` lists there."""
    major = server_version // 10000
    recorded = max((version for version in RECORDED_VERSIONS if version <= major), default=RECORDED_VERSIONS[0])
    return _catalog(recorded, own_objects, search_path, major)


@lru_cache(maxsize=8)
def _catalog(recorded: int, own_objects: str, search_path: tuple[str, ...], major: int) -> Catalog:
    return Catalog([*recorded_lines(recorded), *own_objects.splitlines()], search_path, major)


def recorded_lines(major: int) -> list[str]:
    """The lines that :func:`built_in_objects` lists on a recorded version."""
    lines = []
    for line in (files(__package__) / "builtin_objects.tsv").read_text(encoding="utf-8").splitlines():
        versions, _, rest = line.partition("\t")
        if not versions or str(major) in versions.split(","):
            lines.append(rest)
    return lines
