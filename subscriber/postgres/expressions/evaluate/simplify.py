"""Computes the constant parts of an expression once, as ``eval_const_expressions`` does.

The server plans a filter before it reads a row (``pgoutput_row_filter_init``). This has visible
effects. ``a > 0 OR 1 / 0 = 1`` raises an error for every row, and ``1 / a > 2 AND false`` for no
row. The second argument of a strict function is not evaluated if the first is the constant NULL.
Simplifications without a visible effect are omitted here.

The planner also replaces calls (``simplify_function``):

- It replaces an SQL function by its body. ``interval + date`` becomes ``date + interval``, so the
  error of the date comes first. ``(a, b) OVERLAPS (c, d)`` with an interval b becomes ``(a, a + b)
  OVERLAPS (c, d)``, and likewise for d. If one operand of such an addition is a constant NULL, the
  other is not evaluated.
- A length conversion without effect, because its argument's type modifier is at least as strict, is
  replaced by its first argument. Its other arguments are not evaluated.
- PostgreSQL 17 and later do not evaluate an element that is looked for in a constant range that
  contains nothing or everything, not even if it is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.coerce import modifier_of
from subscriber.postgres.expressions.analyze.tree import ComputedConst
from subscriber.postgres.expressions.evaluate.operations import RECORD, FieldTest, PublisherCollations, operation
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, listed, required_form
from subscriber.postgres.expressions.functions import FUNCTIONS, SWAPPED
from subscriber.postgres.types.datetimes.date_values import FIELDS
from subscriber.postgres.types.oids import INTERVAL_FIELDS
from subscriber.postgres.types.ranges import ends_of

_OVERLAPS: Final = {"time": "time_pl_interval(time,interval)", "timestamp": "timestamp_pl_interval(timestamp,interval)"}
_RANGE_OF: Final = {"range_contains_elem(anyrange,anyelement)": 0, "elem_contained_by_range(anyelement,anyrange)": 1}
"""The position of the range among the arguments."""
_RANGES_ARE_SIMPLIFIED: Final = 170000
_CHEAP: Final = 10
"""An argument that a body uses twice may contain this many functions; else the call stays."""
_TIMESTAMP: Final = 1114
_HEADER: Final = 4
_PRECISION: Final = 6


def replacement(call: tree.Call, server_version: int) -> tree.Expression | None:
    """What replaces a call whose simplified arguments are not all constant; None for nothing."""
    if call.function in SWAPPED:
        left, right = call.arguments
        return tree.Call(call.type_oid, call.collation, SWAPPED[call.function], (right, left))
    if call.function == "date_part(text,date)":
        field, day = call.arguments
        moment = tree.Call(_TIMESTAMP, 0, "timestamp(date)", (day,))
        return tree.Call(call.type_oid, 0, "date_part(text,timestamp)", (field, moment))
    if call.function in _RANGE_OF and server_version >= _RANGES_ARE_SIMPLIFIED:
        return _in_any_range(call, call.arguments[_RANGE_OF[call.function]])
    if call.function.startswith("overlaps(") and "interval" in call.function:
        return _overlaps(call)
    if call.function == "substring(text,text,text)":
        _check_pattern(call)
    return call.arguments[0] if _has_no_effect(call) else None


def _in_any_range(call: tree.Call, whole: tree.Expression) -> tree.Expression | None:
    ends = ends_of(whole.value) if isinstance(whole, tree.ComputedConst) else None
    if not isinstance(whole, tree.ComputedConst) or (ends and any(one.value is not None for one in ends)):
        return None
    return tree.ComputedConst(call.type_oid, call.collation, ends is not None)


def _overlaps(call: tree.Call) -> tree.Expression | None:
    """An OVERLAPS with ends for intervals; None if not in :data:`_OVERLAPS`, or too costly."""
    types = call.function.partition("(")[2].rstrip(")").split(",")
    plus = _OVERLAPS.get(types[0])
    if plus is None:
        return None
    ends = list(call.arguments)
    for start in (0, 2):
        if types[start + 1] == "interval":
            if _calls(ends[start]) > _CHEAP:
                return None
            ends[start + 1] = tree.Call(ends[start].type_oid, 0, plus, (ends[start], ends[start + 1]))
    return tree.Call(call.type_oid, 0, f"overlaps({','.join([types[0]] * 4)})", tuple(ends))


def _calls(node: tree.Expression) -> int:
    return isinstance(node, tree.Call) + sum(map(_calls, node.children))


def _check_pattern(call: tree.Call) -> None:
    """Check the constant pattern of ``substring(a similar b escape c)`` before any row."""
    found = FUNCTIONS.get(call.function)
    known = {place: one.value for place, one in enumerate(call.arguments) if isinstance(one, tree.ComputedConst)}
    if found is not None and {1, 2} <= known.keys():
        found.for_constants(known)


# Conversions of length ----------------------------------------------------------------------------


def _has_no_effect(call: tree.Call) -> bool:
    """``prosupport`` of length conversions: whether this one has no effect."""
    name, _, types = call.function.partition("(")
    if not types.startswith(f"{name},int4") or not isinstance(call.arguments[1], tree.ComputedConst):
        return False
    new: int = call.arguments[1].value
    old = modifier_of(call.arguments[0])
    match name:
        case "varchar":
            return new < 0 or (old > 0 and old <= new)
        case "varbit":
            return new <= 0 or 0 < old <= new
        case "numeric":
            return new < _HEADER or (old >= _HEADER and _scale(old) == _scale(new) and _digits(new) >= _digits(old))
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return new < 0 or new == _PRECISION or 0 <= old <= new
        case "interval":
            return new < 0 or _keeps_interval(old, new)
    return False


def _scale(modifier: int) -> int:
    return ((modifier - _HEADER) & 0x7FF ^ 1024) - 1024


def _digits(modifier: int) -> int:
    return ((modifier - _HEADER) >> 16) & 0xFFFF


def _keeps_interval(old: int, new: int) -> bool:
    least, precision = _least_field(old), 0xFFFF if old < 0 else old & 0xFFFF
    if _least_field(new) > least:
        return False
    return least > 0 or new & 0xFFFF >= _PRECISION or new & 0xFFFF >= precision


def _least_field(modifier: int) -> int:
    """``intervaltypmodleastfield``: 0 for seconds to 5 for years."""
    if modifier < 0:
        return 0
    fields = (modifier >> 16) & 0x7FFF
    names = ("second", "minute", "hour", "day", "month", "year")
    if fields == 0x7FFF:
        return 0
    if fields not in INTERVAL_FIELDS:
        raise RowFilterError(f"invalid INTERVAL typmod: 0x{modifier:x}", sqlstate="XX000")
    return next(place for place, name in enumerate(names) if fields & FIELDS[name])


_NO_ROW = FrameRows({}, 1)
NodeT = TypeVar("NodeT", bound=tree.Expression)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What surrounds a node; ``operand`` is that of the nearest CASE, if it is constant."""

    server_version: int
    collations: PublisherCollations
    operand: ComputedConst | None = None


def simplify(node: tree.Expression, server_version: int, collations: PublisherCollations = ()) -> tree.Expression:
    """The expression with its constant parts computed, as :class:`ComputedConst`."""
    return _simplify(node, _Scope(server_version, collations))


def _simplify(node: tree.Expression, scope: _Scope) -> tree.Expression:
    match node:
        case ComputedConst() | tree.Var():
            return node
        case tree.Const():
            form = required_form(node.type_oid)
            value = None if node.text is None else form.from_text(node.text, node.type_modifier)
            return ComputedConst(node.type_oid, node.collation, value, node.type_modifier)
        case tree.CaseTestExpr():
            return node if scope.operand is None else scope.operand
        case tree.CaseExpr():
            return _case(node, scope)
        case tree.CoalesceExpr():
            return _coalesce(node, scope)
        case tree.BoolExpr() if node.kind != "not":
            return _and_or(node, scope)
        case tree.NullTest():
            return _null_test(node, scope)
        case tree.NullIfExpr():
            return _null_if(node, scope)
        case tree.ScalarArrayOpExpr():
            return _array_comparison(node, scope)
        case tree.Call() if type(node) is tree.Call:
            return _call(node, scope)
        case tree.RowCompareExpr():
            # The server compares rows of constants again for each row of the table.
            return _below(node, scope)
    return _if_known(_below(node, scope), scope)


def _below(node: NodeT, scope: _Scope) -> NodeT:
    """The node with all nodes below it simplified, in the order of the server."""
    return node.mapped(lambda one: _simplify(one, scope))


def _computed(node: tree.Expression, scope: _Scope) -> ComputedConst:
    (value,) = listed(operation(node, scope.server_version, scope.collations).evaluate(_NO_ROW), 1)
    return ComputedConst(node.type_oid, node.collation, value, modifier_of(node))


def _if_known(node: tree.Expression, scope: _Scope) -> tree.Expression:
    return _computed(node, scope) if _all_known(node.children) else node


def _all_known(nodes: Sequence[tree.Expression]) -> bool:
    return all(isinstance(one, ComputedConst) for one in nodes)


def _is_null(node: tree.Expression) -> bool:
    return isinstance(node, ComputedConst) and node.value is None


def _known(node: tree.Expression, value: Any) -> ComputedConst:
    return ComputedConst(node.type_oid, node.collation, value)


def _call(node: tree.Call, scope: _Scope) -> tree.Expression:
    called = _below(node, scope)
    found = FUNCTIONS.get(node.function)
    if found is not None and found.strict and any(map(_is_null, called.arguments)):
        return _known(node, None)
    if _all_known(called.arguments):
        return _computed(called, scope)
    other = replacement(called, scope.server_version)
    return called if other is None else _simplify(other, scope)


def _null_if(node: tree.NullIfExpr, scope: _Scope) -> tree.Expression:
    left, right = (_simplify(one, scope) for one in node.arguments)
    if _is_null(left) or _is_null(right):
        return left
    return _if_known(replace(node, arguments=(left, right)), scope)


def _array_comparison(node: tree.ScalarArrayOpExpr, scope: _Scope) -> tree.Expression:
    left, right = node.arguments
    value = _simplify(left, scope)
    # The elements of IN (…) stay separate, so that each can be compared with a whole column.
    apart = isinstance(right, tree.ArrayExpr) and not right.nested
    array: tree.Expression = _below(right, scope) if apart else _simplify(right, scope)
    compared = replace(node, arguments=(value, array))
    known = isinstance(value, ComputedConst) and _all_known(array.children if apart else (array,))
    return _computed(compared, scope) if known else compared


def _and_or(node: tree.BoolExpr, scope: _Scope) -> tree.Expression:
    deciding = node.kind == "or"
    kept, has_null = [], False
    for argument in node.arguments:
        simple = _simplify(argument, scope)
        if not isinstance(simple, ComputedConst):
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


def _null_test(node: tree.NullTest, scope: _Scope) -> tree.Expression:
    argument = _simplify(node.argument, scope)
    if isinstance(argument, ComputedConst) and argument.type_oid == RECORD:
        return replace(node, argument=argument)  # the server tests a constant row at each row
    if not isinstance(argument, tree.RowExpr):
        return _if_known(replace(node, argument=argument), scope)
    # A row is tested field by field. The first field that fails the test is the last one evaluated.
    tests = []
    for field in argument.fields:
        if not isinstance(field, ComputedConst):
            tests.append(FieldTest(tree.BOOL, 0, field, node.is_null))
        elif (field.value is None) != node.is_null:
            return _known(node, False)
    if not tests:
        return _known(node, True)
    return tests[0] if len(tests) == 1 else tree.BoolExpr(tree.BOOL, 0, "and", tuple(tests))


def _coalesce(node: tree.CoalesceExpr, scope: _Scope) -> tree.Expression:
    kept: list[tree.Expression] = []
    for argument in node.arguments:
        simple = _simplify(argument, scope)
        if _is_null(simple):
            continue
        kept.append(simple)
        if isinstance(simple, ComputedConst):
            break
    if not kept:
        return _known(node, None)
    return kept[0] if len(kept) == 1 else replace(node, arguments=tuple(kept))


def _case(node: tree.CaseExpr, scope: _Scope) -> tree.Expression:
    first = None if node.operand is None else _simplify(node.operand, scope)
    within = scope
    if node.operand is not None:
        within = replace(scope, operand=first if isinstance(first, ComputedConst) else None)
    whens = []
    for condition, result in node.whens:
        met = _simplify(condition, within)
        if isinstance(met, ComputedConst) and not met.value:
            continue
        given = _simplify(result, scope)
        if isinstance(met, ComputedConst):
            default = given
            break
        whens.append((met, given))
    else:
        default = _simplify(node.default, scope)
    if not whens:
        return default
    return replace(
        node, operand=None if isinstance(first, ComputedConst) else first, whens=tuple(whens), default=default
    )
