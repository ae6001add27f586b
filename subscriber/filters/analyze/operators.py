"""Makes calls of operators from analyzed operands (``parse_oper.c``)."""

from __future__ import annotations

from subscriber.errors import UsageError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.candidates import find_operator, find_prefix_operator
from subscriber.filters.analyze.coerce import Coercions
from subscriber.filters.analyze.polymorphic import POLYMORPHIC, enforce_generic_types
from subscriber.filters.analyze.schemas import Schemas
from subscriber.filters.analyze.typeinfo import BOOL, UNKNOWN
from subscriber.filters.builtins import Operator


class Operators:
    """Makes calls of operators.

    Attributes:
        coercions: the conversions of the operands.
        catalog: the operators and functions of the publisher.
        types: the types of the publisher.
    """

    def __init__(self, coercions: Coercions, schemas: Schemas) -> None:
        self.coercions = coercions
        self.catalog = coercions.catalog
        self.types = coercions.types
        self._schemas = schemas

    def call(self, names: tuple[str, ...], left: tree.Expression | None, right: tree.Expression) -> tree.Call:
        """Make a call of an operator (``make_op``).

        Args:
            names: the name of the operator, optionally with its schema.
            left: the left operand; None for a prefix operator.
            right: the right operand.

        Raises:
            UsageError: 3F000, there is no such schema; 42883, there is no such operator; 42725,
                there are several; 42804, the types of the operands do not fit.
        """
        self._schemas.of(names)
        if left is None:
            operator = find_prefix_operator(self.coercions, names, right.type_oid)
            arguments, declared = [right], [operator.right]
        else:
            operator = find_operator(self.coercions, names, left.type_oid, right.type_oid)
            arguments, declared = [left, right], [operator.left, operator.right]
        actual = [one.type_oid for one in arguments]
        declared, result = enforce_generic_types(self.coercions, actual, declared, operator.result)
        made = self.coercions.converted(arguments, declared)
        function = self.catalog.functions[operator.function]
        if function.returns_set:
            raise UsageError("set-returning functions are not allowed in WHERE", sqlstate="0A000")
        return tree.Call(result, self.types.collation(result), self.catalog.signature(function), made, _name(operator))

    def array_call(
        self, names: tuple[str, ...], left: tree.Expression, right: tree.Expression, use_or: bool
    ) -> tree.Expression:
        """Make ``operator ANY (array)`` or ``operator ALL (array)`` (``make_scalar_array_op``).

        Raises:
            UsageError: 42809, the right side is not an array, or the operator does not return
                boolean; also the errors of :meth:`call`.
        """
        element = UNKNOWN if right.type_oid == UNKNOWN else self.types.base_element(right.type_oid)
        if not element:
            raise UsageError("op ANY/ALL (array) requires array on right side", sqlstate="42809")
        self._schemas.of(names)
        operator = find_operator(self.coercions, names, left.type_oid, element)
        declared, result = enforce_generic_types(
            self.coercions, [left.type_oid, element], [operator.left, operator.right], operator.result
        )
        if result != BOOL:
            raise UsageError("op ANY/ALL (array) requires operator to yield boolean", sqlstate="42809")
        if declared[1] in POLYMORPHIC:
            array = right.type_oid
        else:
            array = self.types.array(declared[1])
            if not array:
                name = self.types.name(declared[1])
                raise UsageError(f"could not find array type for data type {name}", sqlstate="42704")
        function = self.catalog.functions[operator.function]
        arguments = self.coercions.converted([left, right], [declared[0], array])
        name = _name(operator)
        return tree.ArrayComparison(BOOL, 0, self.catalog.signature(function), arguments, name, use_or=use_or)

    def distinct(self, left: tree.Expression, right: tree.Expression) -> tree.Expression:
        """Make IS DISTINCT FROM (``make_distinct_op``).

        Raises:
            UsageError: 42804, the operator does not return boolean; also the errors of
                :meth:`call`.
        """
        made = self.call(("=",), left, right)
        if made.type_oid != BOOL:
            raise UsageError("IS DISTINCT FROM requires = operator to yield boolean", sqlstate="42804")
        return tree.Distinct(BOOL, 0, made.function, made.arguments, made.operator)


def _name(operator: Operator) -> str:
    """Return the name of an operator, with its schema unless that is ``pg_catalog``."""
    return operator.name if operator.schema == "pg_catalog" else f"{operator.schema}.{operator.name}"
