"""From the syntax tree of a row filter to a typed tree, as ``parse_expr.c`` does it.

::

    Analysis.expression ──▶ columns, operators, functions, rows ──▶ coercions ──▶ types, catalog
         ▲                                   │
         └─────── a function, passed ────────┘

Imports point only downwards: a module that analyzes operands, such as the calls of functions,
receives :meth:`Analysis.expression` as an argument.
"""

from __future__ import annotations

from typing import Final, Literal

from subscriber.base.digits import parse_int
from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.coerce import Coercions
from subscriber.postgres.expressions.analyze.collate import Collations
from subscriber.postgres.expressions.analyze.column_references import ONLY_SIMPLE, Columns, invalid
from subscriber.postgres.expressions.analyze.function_calls import FunctionCalls
from subscriber.postgres.expressions.analyze.operators import Operators, RowOperations
from subscriber.postgres.expressions.analyze.typeinfo import (
    BIT,
    BOOL,
    INT4,
    INT8,
    NUMERIC,
    RECORD,
    TEXT,
    UNKNOWN,
    Schemas,
    bits_of,
    type_modifier,
)
from subscriber.postgres.expressions.builtin_catalog import Catalog
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables

_SESSION_TYPES: Final = {
    "current_date": 1082,
    "current_time": 1266,
    "current_timestamp": 1184,
    "localtime": 1083,
    "localtimestamp": 1114,
}
_NAME: Final = 19


class Analysis:
    """Analyzes expressions over one table."""

    def __init__(self, catalog: Catalog, table: PublisherTable, tables: PublisherTables) -> None:
        self.catalog = catalog
        self.table = table
        self.coercions = Coercions(catalog)
        self.types = self.coercions.types
        self.collations = Collations(self.types)
        self.columns = Columns(catalog, table, tables.database)
        self._schemas = Schemas(tables)
        self._operators = Operators(self.coercions, self._schemas)
        self._functions = FunctionCalls(self.coercions, self._schemas, self.columns, self.expression)
        self._rows = RowOperations(self._operators)
        self._operand: tree.CaseTestExpr | None = None

    def filter(self, node: syntax.Node) -> tree.Expression:
        """``transformWhereClause``: the filter, which must be a boolean, with its collations."""
        made = self.coercions.to_boolean(self.expression(node), "PUBLICATION WHERE")
        return self.collations.assign(made)

    def expression(self, node: syntax.Node) -> tree.Expression:
        """``transformExprRecurse``."""
        match node:
            case syntax.AConst():
                return self._constant(node)
            case syntax.ColumnRef():
                return self.columns.find(node)
            case syntax.ParamRef():
                return self._parameter(node)
            case syntax.SessionValue():
                return self._session_value(node)
            case syntax.NotSimple():
                return self._not_simple(node)
            case syntax.TypeCast():
                return self._type_cast(node)
            case syntax.CollateClause():
                return self._collate_clause(node)
            case syntax.Indirection():
                return self.columns.indirection(node, self.expression)
            case syntax.AExpr():
                return self._operation(node)
            case syntax.AnyAll():
                return self._operators.array_call(
                    node.names, self.expression(node.left), self.expression(node.right), node.use_or
                )
            case syntax.InList():
                return self._in_list(node)
            case syntax.Between():
                return self._between(node)
            case syntax.DistinctFrom():
                return self._distinct_from(node)
            case syntax.NullIf():
                return self._null_if(node)
            case syntax.BooleanExpression():
                return self._boolean(node)
            case syntax.IsNull():
                return tree.NullTest(BOOL, 0, self.expression(node.argument), node.is_null)
            case syntax.IsTruth():
                return self._boolean_test(node)
            case syntax.Case():
                return self._case(node)
            case syntax.CasePlaceholder():
                return self._placeholder(node)
            case syntax.ArrayLiteral():
                return self._array_of(node, 0, 0, -1)
            case syntax.RowLiteral():
                return tree.RowExpr(RECORD, 0, self._fields(node))
            case syntax.Coalesce():
                return self._coalesce(node)
            case syntax.MinMax():
                return self._min_max(node)
            case syntax.FunctionCall():
                return self._functions.call(node)
        raise AssertionError(f"no rule for {type(node).__name__}")

    # Leaves ---------------------------------------------------------------------------------------

    def _constant(self, node: syntax.AConst) -> tree.Expression:
        match node.kind:
            case "null":
                return tree.Const(UNKNOWN, 0, None)
            case "string":
                return tree.Const(UNKNOWN, 0, node.value)
            case "boolean":
                return tree.Const(BOOL, 0, node.value[0])
            case "bits":
                return tree.Const(BIT, 0, bits_of(node.value))
            case "integer":
                number = parse_int(node.value)
                small, large = -(2**31) <= number < 2**31, -(2**63) <= number < 2**63
                return tree.Const(INT4 if small else INT8 if large else NUMERIC, 0, node.value)
        return tree.Const(NUMERIC, 0, node.value)

    def _parameter(self, node: syntax.ParamRef) -> tree.Expression:
        raise UsageError(f"there is no parameter {node.text}", sqlstate="42P02")

    def _session_value(self, node: syntax.SessionValue) -> tree.Expression:
        oid = _SESSION_TYPES.get(node.name, _NAME)
        return tree.Refused(oid, self.types.collation(oid), "SQLValueFunction")

    def _not_simple(self, node: syntax.NotSimple) -> tree.Expression:
        if node.what == "GroupingFunc":
            raise UsageError("grouping operations are not allowed in WHERE", sqlstate="42803")
        if node.what.isupper() or " " in node.what:
            raise NotSupportedError(
                f"{node.what} is not supported in the row filters that the subscriber evaluates",
                hint="Leave XML out of the filter.",
            )
        for one in node.arguments:
            self.expression(one)
        raise invalid(ONLY_SIMPLE)  # refused at once, since its type is unknown

    # Types ----------------------------------------------------------------------------------------

    def type_of(self, name: syntax.TypeName) -> tuple[int, int]:
        """``typenameTypeIdAndMod``: OID and type modifier."""
        schema = self._schemas.of(name.names)
        written = ".".join(name.names)
        found = self.catalog.find_type(schema, name.names[-1])
        if found is None:
            suffix = "[]" if name.array else ""
            raise UsageError(f'type "{written}{suffix}" does not exist', sqlstate="42704")
        modifier = -1
        if name.modifiers:
            modifier = type_modifier(found, written, tuple(map(_modifier_text, name.modifiers)))
        if name.array:
            if not found.array:
                raise UsageError(f'type "{written}[]" does not exist', sqlstate="42704")
            return found.array, modifier
        return found.oid, modifier

    def _type_cast(self, node: syntax.TypeCast) -> tree.Expression:
        target, modifier = self.type_of(node.type)
        if isinstance(node.argument, syntax.ArrayLiteral):
            base, base_modifier = self.types.base_and_modifier(target, modifier)
            element = self.types.element(base)
            if element:
                argument = self._array_of(node.argument, base, element, base_modifier)
            else:
                argument = self.expression(node.argument)
        else:
            argument = self.expression(node.argument)
        made = self.coercions.coerce_to_target(argument, target, modifier, "explicit", "cast")
        if made is None:
            raise self.cannot_cast(argument.type_oid, target)
        return made

    def cannot_cast(self, source: int, target: int) -> UsageError:
        names = f"{self.types.name(source)} to {self.types.name(target)}"
        return UsageError(f"cannot cast type {names}", sqlstate="42846")

    def _collate_clause(self, node: syntax.CollateClause) -> tree.Expression:
        argument = self.expression(node.argument)
        oid = argument.type_oid
        if oid != UNKNOWN and not self.types.collation(oid):
            raise UsageError(f"collations are not supported by type {self.types.name(oid)}", sqlstate="42804")
        schema = self._schemas.of(node.names)
        collation = self.catalog.find_collation(schema, node.names[-1])
        if collation is None:
            name = ".".join(node.names)
            raise UsageError(f'collation "{name}" for encoding "UTF8" does not exist', sqlstate="42704")
        return tree.CollateExpr(oid, collation, argument)

    # Operators ------------------------------------------------------------------------------------

    def _operation(self, node: syntax.AExpr) -> tree.Expression:
        if isinstance(node.left, syntax.RowLiteral) and isinstance(node.right, syntax.RowLiteral):
            return self._rows.comparison(node.names, self._fields(node.left), self._fields(node.right))
        left = None if node.left is None else self.expression(node.left)
        return self._operators.call(node.names, left, self.expression(node.right))

    def _in_list(self, node: syntax.InList) -> tree.Expression:
        operator = ("<>",) if node.negated else ("=",)
        left = self.expression(node.left)
        values = [(one, self.expression(one)) for one in node.values]
        constants = [made for _, made in values if not has_columns(made)]
        kind: Literal["and", "or"] = "and" if node.negated else "or"
        result: tree.Expression | None = None
        if len(constants) > 1:
            result = self._in_array(operator, left, constants, not node.negated)
        rest = values if result is None else [(one, made) for one, made in values if has_columns(made)]
        for one, made in rest:
            comparison: tree.Expression
            if isinstance(node.left, syntax.RowLiteral) and isinstance(one, syntax.RowLiteral):
                assert isinstance(left, tree.RowExpr)
                assert isinstance(made, tree.RowExpr)
                comparison = self._rows.comparison(operator, left.fields, made.fields)
            else:
                comparison = self._operators.call(operator, left, made)
            comparison = self.coercions.to_boolean(comparison, "IN")
            result = comparison if result is None else tree.BoolExpr(BOOL, 0, kind, (result, comparison))
        assert result is not None
        return result

    def _in_array(
        self, operator: tuple[str, ...], left: tree.Expression, constants: list[tree.Expression], use_or: bool
    ) -> tree.Expression | None:
        """``= ANY (ARRAY[…])``; None if the constants and the left side have no common type."""
        everything = [left, *constants]
        common = self.coercions.common_type(everything, None)
        if not common or common == RECORD:
            return None
        if not all(self.coercions.possible([one.type_oid], [common]) for one in everything):
            return None
        array = self.types.array(common)
        if not array:
            return None
        elements = tuple(self.coercions.to_common(one, common, "IN") for one in constants)
        constructor = tree.ArrayExpr(array, self.types.collation(array), elements)
        return self._operators.array_call(operator, left, constructor, use_or)

    def _between(self, node: syntax.Between) -> tree.Expression:
        def compare(operator: str, bound: syntax.Node) -> syntax.Node:
            return syntax.AExpr(node.position, (operator,), node.argument, bound)

        def both(kind: str, first: syntax.Node, second: syntax.Node) -> syntax.Node:
            return syntax.BooleanExpression(node.position, "and" if kind == "and" else "or", (first, second))

        inner, outer = ("or", "and") if node.negated else ("and", "or")
        low, high = ("<", ">") if node.negated else (">=", "<=")
        within = both(inner, compare(low, node.low), compare(high, node.high))
        if node.symmetric:
            within = both(outer, within, both(inner, compare(low, node.high), compare(high, node.low)))
        return self.expression(within)

    def _distinct_from(self, node: syntax.DistinctFrom) -> tree.Expression:
        for one, other in ((node.right, node.left), (node.left, node.right)):
            if isinstance(one, syntax.AConst) and one.kind == "null":
                return tree.NullTest(BOOL, 0, self.expression(other), node.negated)
        result: tree.Expression
        if isinstance(node.left, syntax.RowLiteral) and isinstance(node.right, syntax.RowLiteral):
            result = self._rows.distinct(self._fields(node.left), self._fields(node.right))
        else:
            result = self._operators.distinct(self.expression(node.left), self.expression(node.right))
        return tree.BoolExpr(BOOL, 0, "not", (result,)) if node.negated else result

    def _null_if(self, node: syntax.NullIf) -> tree.Expression:
        made = self._operators.call(("=",), self.expression(node.left), self.expression(node.right))
        if made.type_oid != BOOL:
            raise UsageError("NULLIF requires = operator to yield boolean", sqlstate="42804")
        first = made.arguments[0]
        return tree.NullIfExpr(first.type_oid, first.collation, made.function, made.arguments, made.operator)

    def _boolean(self, node: syntax.BooleanExpression) -> tree.Expression:
        arguments = tuple(self.coercions.to_boolean(self.expression(one), node.kind.upper()) for one in node.arguments)
        return tree.BoolExpr(BOOL, 0, node.kind, arguments)

    def _boolean_test(self, node: syntax.IsTruth) -> tree.Expression:
        value = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}[node.value]
        construct = f"IS NOT {value}" if node.negated else f"IS {value}"
        argument = self.coercions.to_boolean(self.expression(node.argument), construct)
        return tree.BooleanTest(BOOL, 0, argument, node.value, node.negated)

    # Constructs -----------------------------------------------------------------------------------

    def _case(self, node: syntax.Case) -> tree.Expression:
        operand = None
        outer = self._operand
        if node.operand is not None:
            operand = self.expression(node.operand)
            if operand.type_oid == UNKNOWN:
                operand = self.coercions.to_common(operand, TEXT, "CASE")
            operand = self.collations.assign(operand)
        placeholder = None if operand is None else tree.CaseTestExpr(operand.type_oid, operand.collation)
        whens = []
        for condition, result in node.whens:
            if operand is not None:
                place = condition.position
                condition = syntax.AExpr(place, ("=",), syntax.CasePlaceholder(place), condition)  # noqa: PLW2901 - written out
            self._operand = placeholder
            made = self.coercions.to_boolean(self.expression(condition), "CASE/WHEN")
            self._operand = outer
            whens.append((made, self.expression(result)))
        default = self.expression(node.default or syntax.AConst(node.position, "null", ""))
        common = self.coercions.common_type([default, *(result for _, result in whens)], "CASE")
        default = self.coercions.to_common(default, common, "CASE/ELSE")
        results = tuple((one, self.coercions.to_common(result, common, "CASE/WHEN")) for one, result in whens)
        return tree.CaseExpr(common, self.types.collation(common), operand, results, default)

    def _placeholder(self, _: syntax.CasePlaceholder) -> tree.Expression:
        assert self._operand is not None
        return self._operand

    def _array_of(self, node: syntax.ArrayLiteral, array: int, element: int, modifier: int) -> tree.Expression:
        """``transformArrayExpr``. A cast around an array constructor determines its type."""
        nested = False
        elements = []
        for one in node.elements:
            if isinstance(one, syntax.ArrayLiteral):
                made = self._array_of(one, array, element, modifier)
                nested = True
            else:
                made = self.expression(one)
                nested = nested or bool(made.type_oid != UNKNOWN and self.types.element(made.type_oid))
            elements.append(made)
        forced = array != 0
        wanted = array if nested else element
        if not forced:
            array, element, wanted = self._array_type(elements, nested=nested)
        converted = []
        for made in elements:
            if forced:
                conversion = self.coercions.coerce_to_target(made, wanted, modifier, "explicit", "cast")
                if conversion is None:
                    raise self.cannot_cast(made.type_oid, wanted)
                converted.append(conversion)
            else:
                converted.append(self.coercions.to_common(made, wanted, "ARRAY"))
        return tree.ArrayExpr(array, self.types.collation(array), tuple(converted), nested)

    def _array_type(self, elements: list[tree.Expression], *, nested: bool) -> tuple[int, int, int]:
        if not elements:
            raise UsageError(
                "cannot determine type of empty array",
                sqlstate="42P18",
                hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            )
        common = self.coercions.common_type(elements, "ARRAY")
        if nested:
            element = self.types.element(common)
            if not element:
                name = self.types.name(common)
                raise UsageError(f"could not find element type for data type {name}", sqlstate="42704")
            return common, element, common
        array = self.types.array(common)
        if not array:
            raise UsageError(f"could not find array type for data type {self.types.name(common)}", sqlstate="42704")
        return array, common, common

    def _fields(self, node: syntax.RowLiteral) -> tuple[tree.Expression, ...]:
        fields: list[tree.Expression] = []
        for one in node.fields:
            if isinstance(one, syntax.ColumnRef) and one.parts[-1] is None:
                fields += self.columns.all_of(one)
            else:
                fields.append(self.expression(one))
        return tuple(fields)

    def _coalesce(self, node: syntax.Coalesce) -> tree.Expression:
        arguments = [self.expression(one) for one in node.arguments]
        common = self.coercions.common_type(arguments, "COALESCE")
        made = tuple(self.coercions.to_common(one, common, "COALESCE") for one in arguments)
        return tree.CoalesceExpr(common, self.types.collation(common), made)

    def _min_max(self, node: syntax.MinMax) -> tree.Expression:
        construct = "GREATEST" if node.greatest else "LEAST"
        arguments = [self.expression(one) for one in node.arguments]
        common = self.coercions.common_type(arguments, construct)
        made = tuple(self.coercions.to_common(one, common, construct) for one in arguments)
        return tree.MinMaxExpr(common, self.types.collation(common), node.greatest, made, self._rows.less(common))


def has_columns(node: tree.Expression) -> bool:
    """``contain_vars_of_level``."""
    is_column = isinstance(node, tree.Var) or (isinstance(node, tree.Refused) and node.what in ("SystemColumn", "Row"))
    return is_column or any(map(has_columns, node.children))


def _modifier_text(node: syntax.Node) -> str:
    if isinstance(node, syntax.AConst) and node.kind != "null":
        return node.value
    if isinstance(node, syntax.ColumnRef) and len(node.parts) == 1 and node.parts[0] is not None:
        return node.parts[0]
    raise UsageError("type modifiers must be simple constants or identifiers", sqlstate="42601")
