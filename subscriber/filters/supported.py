"""Checks that the subscriber computes an expression exactly as the server does.

An expression that it does not compute exactly is refused, and the message names the function,
operator, type or collation (invariant refuse_not_guess).
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.errors import DataException, NotSupportedError, UsageError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.typeinfo import ANY, RECORD, Types
from subscriber.filters.evaluate.calls import of_type
from subscriber.filters.evaluate.operations import elements_of
from subscriber.filters.evaluate.row_filter import compile_filter
from subscriber.filters.evaluate.simplify import simplify
from subscriber.filters.functions import FUNCTIONS
from subscriber.filters.functions.function_table import Implementation
from subscriber.schema.publisher_tables import PublisherTables
from subscriber.types import ELEMENT_TYPES, form_of

_INSTEAD = "Leave it out of the filter, or define the filter at the publisher (PostgreSQL 15 or later)."


_OF_ENCODED_TEXT = frozenset(
    {"octet_length(text)", "octet_length(bpchar)", "md5(text)", "ascii(text)", "chr(int4)"}
    | {f"{name}(text)" for name in ("sha224", "sha256", "sha384", "sha512")}
)
"""Functions that read the bytes of text in the encoding of the database. The subscriber holds text
as UTF-8.
"""


_BY_THE_DATABASES_COLLATION = frozenset(f"jsonb_{name}(jsonb,jsonb)" for name in ("lt", "le", "gt", "ge"))
"""Functions that compare strings by the collation of the database, whatever collation the
expression specifies.
"""
_DEFAULT_COLLATION = 100


def check_supported(node: tree.Expression, types: Types, tables: PublisherTables) -> None:
    """Check an expression that a publication may contain.

    Args:
        node: the expression.
        types: the types of the publisher.
        tables: the publisher's tables. The server version, the collations and the encoding of the
            publisher are read from here.

    Raises:
        NotSupportedError: 0A000. The message names the function or operator with its types, the
            type, or the collation.
        UsageError: 42P22, the server could not compute the expression either; 42883, a type of
            GREATEST or LEAST has no comparison function.
    """
    _Check(types, tables).node(node)
    try:
        compile_filter(node, tables.server_version)
    except DataException:
        pass  # A constant part fails. The server accepts such a filter too, and raises the error at the first row.


class _Check:
    def __init__(self, types: Types, tables: PublisherTables) -> None:
        self._types = types
        self._server_version = tables.server_version
        self._encoding = tables.encoding
        self._bytewise = tables.bytewise_collations

    def node(self, node: tree.Expression) -> None:
        """Check this node and all nodes below it."""
        match node:
            case tree.Column() | tree.Constant() | tree.Relabel() if node.type_oid != RECORD:
                if form_of(node.type_oid) is None:
                    raise _unsupported(f"type {self._types.name(node.type_oid)}")
            case tree.Call():
                self._call(node)
            case tree.RowComparison():
                for place, pair in enumerate(zip(node.left, node.right, strict=True)):
                    for function in (node.functions[place], node.equals[place]):
                        self._function(function, self._operator(node.kind, pair), pair, node.input_collations[place])
            case tree.MinMax():
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
        if isinstance(node, tree.ArrayComparison):
            left, right = node.arguments
            for element in _elements(right, self._server_version):
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
        if signature in _BY_THE_DATABASES_COLLATION and _DEFAULT_COLLATION not in self._bytewise:
            raise NotSupportedError(
                f"{what} is not supported in a database whose collation does not compare by bytes",
                hint="Compare a value of the document instead, for example (document ->> 'name') COLLATE \"C\".",
            )
        of_these = _of_these(found, arguments, self._server_version)  # may be refused whatever the collation is
        if not any(self._types.collation(one.type_oid) for one in arguments):
            return
        if collation == 0:
            raise UsageError(
                "could not determine which collation to use for string comparison",
                sqlstate="42P22",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        if of_these.bytewise and collation not in self._bytewise:
            name = self._types.catalog.collation_name(collation) or str(collation)
            raise NotSupportedError(
                f'{what} by collation "{name}" is not supported in the row filters that the subscriber evaluates',
                hint='Only collations that compare by bytes are supported. Write COLLATE "C" after the value.',
            )


def _of_these(found: Implementation, arguments: Sequence[tree.Expression], server_version: int) -> Implementation:
    """Return the implementation of a call with these arguments, of which some may be constants."""
    if found.specialise is None:
        return found
    constants = {}
    try:
        for place, argument in enumerate(arguments):
            if not _varies(argument):
                simple = simplify(argument, server_version)
                if isinstance(simple, tree.Known):
                    constants[place] = simple.value
        return found.for_constants(constants)
    except DataException:
        return found  # the error is raised at the first row, as on the server


def _elements(array: tree.Expression, server_version: int) -> Sequence[tree.Expression]:
    """Return the expressions that ANY and ALL compare with.

    For a constant array and for ``ARRAY[...]`` these are the elements. For any other array it is an
    arbitrary value of the element type.
    """
    known = array
    if not _varies(array):
        try:
            known = simplify(array, server_version)
        except DataException:
            pass  # the error is raised at the first row, as on the server
    elements = elements_of(known)
    return (of_type(ELEMENT_TYPES[array.type_oid]),) if elements is None else elements


def _varies(node: tree.Expression) -> bool:
    return isinstance(node, tree.Column | tree.CaseOperand) or any(map(_varies, node.children))


def _unsupported(what: str) -> NotSupportedError:
    return NotSupportedError(f"{what} is not supported in the row filters that the subscriber evaluates", hint=_INSTEAD)
