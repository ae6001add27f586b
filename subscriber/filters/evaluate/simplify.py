"""Computes the constant parts of an expression once, as ``eval_const_expressions`` does.

The server simplifies a filter before it reads a row (``pgoutput_row_filter_init`` plans the
filter). This has visible effects. ``a > 0 OR 1 / 0 = 1`` raises an error for every row, and ``1 / a
> 2 AND false`` for no row. The second argument of a strict function is not evaluated if the first
argument is the constant NULL. Simplifications without a visible effect are omitted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from subscriber.filters.analyze import tree
from subscriber.filters.analyze.coerce import modifier_of
from subscriber.filters.analyze.tree import Known
from subscriber.filters.evaluate.operations import RECORD, FieldTest, operation
from subscriber.filters.evaluate.replacement import replacement
from subscriber.filters.evaluate.row_values import Rows, listed, required_form
from subscriber.filters.functions import FUNCTIONS

_NO_ROW = Rows({}, 1)


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a node.

    Attributes:
        server_version: the version number of the publisher, as libpq reports it.
        operand: the operand of the nearest enclosing CASE; None if it is not constant.
    """

    server_version: int
    operand: Known | None = None


def simplify(node: tree.Expression, server_version: int) -> tree.Expression:
    """Return the expression with its constant parts computed, as :class:`Known`.

    Args:
        node: the analyzed expression.
        server_version: the version number of the publisher, as libpq reports it. Some functions
            differ between versions.

    Raises:
        RowFilterError: a constant part cannot be computed. The server reports this at the first
            row.
        SubscriberError: a constant is not a value of its type.
        NotSupportedError: the subscriber does not compute with a type.
    """
    return _simplify(node, _Around(server_version))


def _simplify(node: tree.Expression, around: _Around) -> tree.Expression:
    match node:
        case Known() | tree.Column():
            return node
        case tree.Constant():
            form = required_form(node.type_oid)
            value = None if node.text is None else form.from_text(node.text, node.type_modifier)
            return Known(node.type_oid, node.collation, value, node.type_modifier)
        case tree.CaseOperand():
            return node if around.operand is None else around.operand
        case tree.Case():
            return _case(node, around)
        case tree.Coalesce():
            return _coalesce(node, around)
        case tree.Boolean() if node.kind != "not":
            return _and_or(node, around)
        case tree.NullTest():
            return _null_test(node, around)
        case tree.NullIf():
            return _null_if(node, around)
        case tree.ArrayComparison():
            return _array_comparison(node, around)
        case tree.Call() if type(node) is tree.Call:
            return _call(node, around)
        case tree.RowComparison():
            # The server compares rows of constants again for each row of the table.
            compared: tree.Expression = _below(node, around)
            return compared
    return _if_known(_below(node, around), around)


def _below(node: tree.Expression, around: _Around) -> Any:
    """Return the node with all nodes below it simplified, in the order of the server."""
    changed: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tree.Expression):
            changed[field.name] = _simplify(value, around)
        elif isinstance(value, tuple) and value and isinstance(value[0], tree.Expression):
            changed[field.name] = tuple(_simplify(one, around) for one in value)
    return replace(node, **changed)


def _computed(node: tree.Expression, around: _Around) -> Known:
    (value,) = listed(operation(node, around.server_version).evaluate(_NO_ROW), 1)
    return Known(node.type_oid, node.collation, value, modifier_of(node))


def _if_known(node: tree.Expression, around: _Around) -> tree.Expression:
    return _computed(node, around) if _all_known(node.children) else node


def _all_known(nodes: Sequence[tree.Expression]) -> bool:
    return all(isinstance(one, Known) for one in nodes)


def _is_null(node: tree.Expression) -> bool:
    return isinstance(node, Known) and node.value is None


def _known(node: tree.Expression, value: Any) -> Known:
    return Known(node.type_oid, node.collation, value)


def _call(node: tree.Call, around: _Around) -> tree.Expression:
    called = _below(node, around)
    found = FUNCTIONS.get(node.function)
    if found is not None and found.strict and any(map(_is_null, called.arguments)):
        return _known(node, None)
    if _all_known(called.arguments):
        return _computed(called, around)
    other = replacement(called)
    return called if other is None else _simplify(other, around)


def _null_if(node: tree.NullIf, around: _Around) -> tree.Expression:
    left, right = (_simplify(one, around) for one in node.arguments)
    if _is_null(left) or _is_null(right):
        return left
    return _if_known(replace(node, arguments=(left, right)), around)


def _array_comparison(node: tree.ArrayComparison, around: _Around) -> tree.Expression:
    left, right = node.arguments
    value = _simplify(left, around)
    # The elements of IN (…) stay separate, so that each can be compared with a whole column.
    apart = isinstance(right, tree.ArrayConstructor) and not right.nested
    array: tree.Expression = _below(right, around) if apart else _simplify(right, around)
    compared = replace(node, arguments=(value, array))
    known = isinstance(value, Known) and _all_known(array.children if apart else (array,))
    return _computed(compared, around) if known else compared


def _and_or(node: tree.Boolean, around: _Around) -> tree.Expression:
    deciding = node.kind == "or"
    kept, has_null = [], False
    for argument in node.arguments:
        simple = _simplify(argument, around)
        if not isinstance(simple, Known):
            kept.append(simple)
        elif simple.value is deciding:
            return simple  # the server does not simplify the arguments after it
        else:
            has_null = has_null or simple.value is None
    if has_null:
        kept.append(_known(node, None))
    if not kept:
        return _known(node, not deciding)
    return kept[0] if len(kept) == 1 else replace(node, arguments=tuple(kept))


def _null_test(node: tree.NullTest, around: _Around) -> tree.Expression:
    argument = _simplify(node.argument, around)
    if isinstance(argument, Known) and argument.type_oid == RECORD:
        return replace(node, argument=argument)  # the server tests a constant row at each row
    if not isinstance(argument, tree.RowConstructor):
        return _if_known(replace(node, argument=argument), around)
    # A row is tested field by field. The first field that fails the test is the last one evaluated.
    tests = []
    for field in argument.fields:
        if not isinstance(field, Known):
            tests.append(FieldTest(tree.BOOL, 0, field, node.is_null))
        elif (field.value is None) != node.is_null:
            return _known(node, False)
    if not tests:
        return _known(node, True)
    return tests[0] if len(tests) == 1 else tree.Boolean(tree.BOOL, 0, "and", tuple(tests))


def _coalesce(node: tree.Coalesce, around: _Around) -> tree.Expression:
    kept: list[tree.Expression] = []
    for argument in node.arguments:
        simple = _simplify(argument, around)
        if _is_null(simple):
            continue
        kept.append(simple)
        if isinstance(simple, Known):
            break
    if not kept:
        return _known(node, None)
    return kept[0] if len(kept) == 1 else replace(node, arguments=tuple(kept))


def _case(node: tree.Case, around: _Around) -> tree.Expression:
    first = None if node.operand is None else _simplify(node.operand, around)
    within = around
    if node.operand is not None:
        within = replace(around, operand=first if isinstance(first, Known) else None)
    whens = []
    for condition, result in node.whens:
        met = _simplify(condition, within)
        if isinstance(met, Known) and not met.value:
            continue
        given = _simplify(result, around)
        if isinstance(met, Known):
            default = given
            break
        whens.append((met, given))
    else:
        default = _simplify(node.default, around)
    if not whens:
        return default
    return replace(node, operand=None if isinstance(first, Known) else first, whens=tuple(whens), default=default)
