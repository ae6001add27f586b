"""Checks that the subscriber computes an expression exactly as the server does.

If it does not, the error names the function, operator, type or collation (refuse_not_guess).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from subscriber.base.errors import DataException, NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.typeinfo import ANY, RECORD, Types
from subscriber.postgres.expressions.evaluate.calls import of_type, under
from subscriber.postgres.expressions.evaluate.operations import elements_of
from subscriber.postgres.expressions.evaluate.row_filter import compile_filter
from subscriber.postgres.expressions.evaluate.simplify import simplify
from subscriber.postgres.expressions.functions import FUNCTIONS, hashes
from subscriber.postgres.expressions.functions.collators import orders_by_bytes
from subscriber.postgres.expressions.functions.function_table import Implementation
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.registry import form_of

_INSTEAD = "Leave it out of the filter, or define the filter at the publisher (PostgreSQL 15 or later)."


_OF_ENCODED_TEXT = frozenset(
    {
        signature
        for name, kind in (("text", "text"), ("name", "name"), ("bpchar", "bpchar"))
        for signature in (f"hash{name}({kind})", f"hash{name}extended({kind},int8)")
    }
    | {"octet_length(text)", "octet_length(bpchar)", "md5(text)", "ascii(text)", "chr(int4)", "parse_ident(text,bool)"}
    | {f"{name}(text)" for name in ("sha224", "sha256", "sha384", "sha512")}
)
"""They read text as bytes in the database's encoding. The subscriber has UTF-8."""


_BY_ENCODING = frozenset({"encode(bytea,text)", "decode(text,text)"})
_ENCODINGS = frozenset({"hex", "base64", "escape"})
"""Those of PostgreSQL 18; 19 has base64url and base32hex, too."""


_BY_THE_DATABASES_COLLATION = frozenset(f"jsonb_{name}(jsonb,jsonb)" for name in ("lt", "le", "gt", "ge"))
"""They compare strings by the database's collation, whatever the expression specifies."""
_DEFAULT_COLLATION = 100
_PROVIDERS = {"b": "the builtin provider", "c": "libc", "i": "ICU"}
_ONLY_BYTES = 'Only collations that compare by bytes are supported. Write COLLATE "C" after the value.'
_WHICH_COLLATIONS = (
    "The collations of the database and of its columns are supported if the encoding is UTF8, and those that compare"
    ' by bytes. Write COLLATE "C" after the value.'
)


def check_supported(node: tree.Expression, types: Types, tables: PublisherTables) -> None:
    _Check(types, tables).node(node)
    try:
        compile_filter(node, tables.server_version, tables.collations)
    except DataException:
        pass  # A constant part fails. The server accepts such a filter too, and raises the error at the first row.


class _Check:
    def __init__(self, types: Types, tables: PublisherTables) -> None:
        self._types = types
        self._tables = tables
        self._encoding = tables.encoding
        self._bytewise = tables.bytewise_collations
        self._collations = {one.oid: one for one in tables.collations}

    def node(self, node: tree.Expression) -> None:
        match node:
            case tree.Var() | tree.Const() | tree.RelabelType() if node.type_oid != RECORD:
                if form_of(node.type_oid) is None:
                    raise _unsupported(f"type {self._types.name(node.type_oid)}")
            case tree.Call():
                self._call(node)
            case tree.RowCompareExpr():
                for place, pair in enumerate(zip(node.left, node.right, strict=True)):
                    for function in (node.functions[place], node.equals[place]):
                        self._function(function, self._operator(node.kind, pair), pair, node.input_collations[place])
            case tree.MinMaxExpr():
                word = "GREATEST" if node.greatest else "LEAST"
                name = self._types.name(node.type_oid)
                if not node.less:
                    raise UsageError(f"could not identify a comparison function for type {name}", sqlstate="42883")
                what = f"{word} of type {name}"
                self._function(node.less, what, node.arguments[:2], node.input_collation)
        for child in node.children:
            self.node(child)

    def _call(self, node: tree.Call) -> None:
        if node.operator is not None:
            what = self._operator(node.operator, node.arguments)
        else:
            name = node.function.partition("(")[0]
            what = f"function {name}({', '.join(self._types.name(one.type_oid) for one in node.arguments)})"
        if node.variadic and self._types.catalog.function_of(node.function).variadic == ANY:
            raise _unsupported(f"{what} with VARIADIC")
        if isinstance(node, tree.ScalarArrayOpExpr):
            left, right = node.arguments
            for element in _elements(right, self._tables):
                self._function(node.function, what, (left, element), node.input_collation)
        else:
            self._function(node.function, what, node.arguments, node.input_collation)

    def _operator(self, name: str, arguments: Sequence[tree.Expression]) -> str:
        names = [self._types.name(one.type_oid) for one in arguments]
        return "operator " + " ".join([*names[:-1], name, names[-1]])

    def _function(self, signature: str, what: str, arguments: Sequence[tree.Expression], collation: int) -> None:
        found = FUNCTIONS.get(signature)
        if found is None:
            raise _unsupported(what)
        if signature in _OF_ENCODED_TEXT and self._encoding != "UTF8":
            raise _unsupported(f"{what} of a database with encoding {self._encoding}")
        if signature in _BY_ENCODING and self._tables.server_version >= 190000:
            encoding = _constant(arguments[1], self._tables)
            if encoding is None or str(encoding).lower() not in _ENCODINGS:
                raise _unsupported(f"{what} with an encoding that may be new in PostgreSQL 19")
        if signature in hashes.SIGNATURES and not self._tables.has_known_hashes:
            raise NotSupportedError(
                f"{what} is not supported, because the publisher's hash functions give other results", hint=_INSTEAD
            )
        if signature in _BY_THE_DATABASES_COLLATION and not self._orders_by_bytes(_DEFAULT_COLLATION):
            raise NotSupportedError(
                f"{what} is not supported in a database whose collation does not compare by bytes",
                hint="Compare a value of the document instead, for example (document ->> 'name') COLLATE \"C\".",
            )
        of_these = _of_these(found, arguments, self._tables)  # may be refused whatever the collation is
        if not any(self._types.collation(one.type_oid) for one in arguments):
            return
        if collation == 0:
            raise UsageError(
                "could not determine which collation to use for string comparison",
                sqlstate="42P22",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        if collation in self._bytewise or not of_these.bytewise:
            return
        known = self._collations.get(collation)
        name = f'"{self._types.catalog.collation_name(collation) or collation}"'
        if known is not None and collation == _DEFAULT_COLLATION:
            name = f"{name} ({known.locale} of {_PROVIDERS[known.provider]})"
        if known is None or self._encoding != "UTF8" or (of_these.by_order is None and of_these.by_case is None):
            raise NotSupportedError(
                f"{what} by collation {name} is not supported in the row filters that the subscriber evaluates",
                hint=_WHICH_COLLATIONS if of_these.by_order or of_these.by_case else _ONLY_BYTES,
            )
        try:
            under(of_these, known)
        except NotSupportedError as error:
            raise NotSupportedError(
                f"{what} by collation {name} cannot be evaluated by this machine",
                detail=error.detail,
                hint=error.hint,
            ) from None

    def _orders_by_bytes(self, collation: int) -> bool:
        known = self._collations.get(collation)
        is_known = known is not None and self._encoding == "UTF8" and orders_by_bytes(known)
        return collation in self._bytewise or is_known


def _of_these(found: Implementation, arguments: Sequence[tree.Expression], tables: PublisherTables) -> Implementation:
    """The implementation of a call; several constants, as of a CASE, are checked one by one."""
    if found.specialise is None:
        return found
    constants = {}
    try:
        for place, argument in enumerate(arguments):
            if not _varies(argument):
                simple = simplify(argument, tables.server_version, tables.collations)
                if isinstance(simple, tree.ComputedConst):
                    constants[place] = simple.value
        for place, argument in enumerate(arguments):
            for choice in _choices(argument) if place not in constants else ():
                with suppress(DataException):
                    simple = simplify(choice, tables.server_version, tables.collations)
                    if isinstance(simple, tree.ComputedConst):
                        found.for_constants({**constants, place: simple.value})
        return found.for_constants(constants)
    except DataException:
        return found  # the error is raised at the first row, as on the server


def _constant(node: tree.Expression, tables: PublisherTables) -> object:
    """The value of an expression without columns; None if it varies, is NULL, or has an error."""
    if _varies(node):
        return None
    with suppress(DataException):
        simple = simplify(node, tables.server_version, tables.collations)
        if isinstance(simple, tree.ComputedConst):
            return simple.value
    return None


def _choices(node: tree.Expression) -> Iterator[tree.Expression]:
    """The constants whose value an expression may have for some rows."""
    match node:
        case _ if not _varies(node):
            yield node
        case tree.CaseExpr():
            for result in (*(result for _, result in node.whens), node.default):
                yield from _choices(result)
        case tree.CoalesceExpr() | tree.MinMaxExpr():
            for argument in node.arguments:
                yield from _choices(argument)
        case tree.NullIfExpr():
            yield from _choices(node.arguments[0])
        case tree.CollateExpr() | tree.RelabelType():
            yield from _choices(node.argument)


def _elements(array: tree.Expression, tables: PublisherTables) -> Sequence[tree.Expression]:
    """The elements of a constant array or ``ARRAY[...]``; of any other array, an arbitrary one."""
    known = array
    if not _varies(array):
        try:
            known = simplify(array, tables.server_version, tables.collations)
        except DataException:
            pass  # the error is raised at the first row, as on the server
    elements = elements_of(known)
    return (of_type(ELEMENT_TYPES[array.type_oid]),) if elements is None else elements


def _varies(node: tree.Expression) -> bool:
    return isinstance(node, tree.Var | tree.CaseTestExpr) or any(map(_varies, node.children))


def _unsupported(what: str) -> NotSupportedError:
    return NotSupportedError(f"{what} is not supported in the row filters that the subscriber evaluates", hint=_INSTEAD)
