r"""Prints a filter as ``pg_get_expr`` does (``ruleutils.c``), so as ``\dRp+`` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.coerce import length_of
from subscriber.postgres.expressions.analyze.typeinfo import BOOL, INT4, NUMERIC, UNKNOWN, Types, output_text
from subscriber.postgres.sql.quoting import quote_identifier, quote_literal

_INDENT: Final = 4
_INDENT_LIMIT: Final = 40


def deparse(node: tree.Expression, types: Types) -> str:
    """The text of a filter that passed ``validate`` of ``check_filter``."""
    printer = _Printer(types)
    printer.node(node, implicit=False)
    return printer.text


class _Printer:
    def __init__(self, types: Types) -> None:
        self.text = ""
        self._types = types
        self._level = 0

    def node(self, node: tree.Expression, *, implicit: bool) -> None:
        """``get_rule_expr``; ``implicit`` says whether implicit conversions are printed."""
        match node:
            case tree.Var():
                self.text += quote_identifier(node.name, self._types.catalog.major)
            case tree.Const():
                self._constant(node, label=0)
            case tree.ScalarArrayOpExpr():
                self._array_comparison(node)
            case tree.DistinctExpr():
                self._infix(node.arguments[0], "IS DISTINCT FROM", node.arguments[1])
            case tree.NullIfExpr():
                self._named("NULLIF", node.arguments)
            case tree.Call() if node.operator is not None:
                self._operation(node)
            case tree.Call():
                self._call(node, implicit=implicit)
            case tree.RowCompareExpr():
                self._put("(ROW(", node.left, f") {node.kind} ROW(", node.right, "))")
            case tree.BoolExpr():
                self._boolean(node)
            case tree.RelabelType():
                if node.form == "implicit" and not implicit:
                    self.node(node.argument, implicit=False)
                else:
                    self._coercion(node.argument, node.type_oid, node.type_modifier)
            case tree.CollateExpr():
                self._collate(node, implicit=implicit)
            case tree.CaseExpr():
                self._case(node)
            case tree.ArrayExpr():
                self._put("ARRAY[", node.elements, "]")
                if not node.elements:
                    self.text += f"::{self._types.name_with_modifier(node.type_oid, -1)}"
            case tree.RowExpr():
                self._put("ROW(", node.fields, ")")
            case tree.CoalesceExpr():
                self._named("COALESCE", node.arguments)
            case tree.MinMaxExpr():
                self._named("GREATEST" if node.greatest else "LEAST", node.arguments)
            case tree.NullTest():
                self._put("(", [node.argument], " IS NULL)" if node.is_null else " IS NOT NULL)")
            case tree.BooleanTest():
                self._boolean_test(node)
            case _:
                raise AssertionError(f"{type(node).__name__} cannot occur in a filter")

    # Pieces ---------------------------------------------------------------------------------------

    def _put(self, *parts: str | Sequence[tree.Expression]) -> None:
        for part in parts:
            if isinstance(part, str):
                self.text += part
                continue
            for number, node in enumerate(part):
                self.text += ", " if number else ""
                self.node(node, implicit=True)

    def _named(self, name: str, arguments: Sequence[tree.Expression]) -> None:
        self._put(f"{name}(", arguments, ")")

    def _infix(self, left: tree.Expression, operator: str, right: tree.Expression) -> None:
        self._put("(", [left], f" {operator} ", [right], ")")

    def _operation(self, node: tree.Call) -> None:
        assert node.operator is not None
        if len(node.arguments) == 1:
            self._put(f"({node.operator} ", node.arguments, ")")
        else:
            self._infix(node.arguments[0], node.operator, node.arguments[1])

    def _array_comparison(self, node: tree.ScalarArrayOpExpr) -> None:
        word = "ANY" if node.use_or else "ALL"
        self._put("(", [node.arguments[0]], f" {node.operator} {word} (", [node.arguments[1]], "))")

    def _boolean(self, node: tree.BoolExpr) -> None:
        self.text += "(NOT " if node.kind == "not" else "("
        for number, argument in enumerate(node.arguments):
            self.text += f" {node.kind.upper()} " if number else ""
            self.node(argument, implicit=False)
        self.text += ")"

    def _boolean_test(self, node: tree.BooleanTest) -> None:
        self.text += "("
        self.node(node.argument, implicit=False)
        value = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}[node.value]
        self.text += f" IS {'NOT ' if node.negated else ''}{value})"

    def _collate(self, node: tree.CollateExpr, *, implicit: bool) -> None:
        self.text += "("
        self.node(node.argument, implicit=implicit)
        name = self._types.catalog.collation_name(node.collation) or str(node.collation)
        self.text += f" COLLATE {quote_identifier(name, self._types.catalog.major)})"

    def _case(self, node: tree.CaseExpr) -> None:
        self._line("CASE", after=_INDENT)
        if node.operand is not None:
            self._put(" ", [node.operand])
        for condition, result in node.whens:
            shown = condition
            if node.operand is not None and _is_on_operand(condition):
                shown = condition.children[1]
            self._line("WHEN ")
            self.node(shown, implicit=False)
            self._put(" THEN ", [result])
        self._line("ELSE ")
        self.node(node.default, implicit=True)
        self._line("END", before=-_INDENT)

    def _line(self, word: str, before: int = 0, after: int = 0) -> None:
        """``appendContextKeyword``: a keyword with a line break and indentation."""
        self._level += before
        amount = max(self._level, 0)
        if amount >= _INDENT_LIMIT:
            amount = (_INDENT_LIMIT + (amount - _INDENT_LIMIT) // 4) % _INDENT_LIMIT
        self.text = self.text.rstrip(" ") + "\n" + " " * amount + word
        self._level = max(self._level + after, 0)

    def _coercion(self, argument: tree.Expression, target: int, modifier: int) -> None:
        """``get_coercion_expr``."""
        plain = isinstance(argument, tree.Const) and argument.type_oid == target and argument.type_modifier == -1
        if plain:
            assert isinstance(argument, tree.Const)
            self._constant(argument, label=-1)
        else:
            self.text += "("
            self.node(argument, implicit=False)
            self.text += ")"
        self.text += f"::{self._types.name_with_modifier(target, modifier)}"

    def _constant(self, node: tree.Const, label: int) -> None:
        """``get_const_expr``: the label 0 adds the type if the text leaves it open, -1 never."""
        name = self._types.name_with_modifier(node.type_oid, node.type_modifier)
        if node.text is None:
            self.text += "NULL" if label < 0 else f"NULL::{name}"
            return
        text = output_text(node)
        if node.type_oid == BOOL:
            self.text += "true" if text == "t" else "false"
            return
        quoted = True
        if node.type_oid == INT4:
            quoted = text.startswith("-")
        elif node.type_oid == NUMERIC:
            quoted = not (text[0].isdigit() and any(mark in text for mark in "eE."))
        self.text += quote_literal(text) if quoted else text
        needed = node.type_oid != UNKNOWN and (quoted or (node.type_oid == NUMERIC and node.type_modifier >= 0))
        if needed and label >= 0:
            self.text += f"::{name}"

    # Calls ----------------------------------------------------------------------------------------

    def _call(self, node: tree.Call, *, implicit: bool) -> None:
        """``get_func_expr``."""
        if node.form == "implicit" and not implicit:
            self.node(node.arguments[0], implicit=False)
            return
        if node.form in ("cast", "implicit"):
            self._coercion(node.arguments[0], node.type_oid, length_of(node))
            return
        name = node.function.partition("(")[0]
        given = node.arguments[: len(node.arguments) - node.default_count]
        if node.form == "sql" and self._special(name, given):
            return
        self.text += f"{quote_identifier(name, self._types.catalog.major)}("
        for number, argument in enumerate(given):
            self.text += ", " if number else ""
            self.text += "VARIADIC " if node.variadic and number == len(given) - 1 else ""
            self.node(argument, implicit=True)
        self.text += ")"

    def _special(self, name: str, given: Sequence[tree.Expression]) -> bool:
        """``get_func_sql_syntax``; False if the function has no SQL syntax."""
        parts = _special_parts(name, given)
        if parts is None:
            return False
        for part in parts:
            if isinstance(part, str):
                self.text += part
            else:
                self.node(part, implicit=False)
        return True


def _special_parts(name: str, given: Sequence[tree.Expression]) -> list[str | tree.Expression] | None:
    """Words and arguments of a call in SQL syntax; None if it is printed like any other call."""
    match name, list(given):
        case "timezone", [zone, value]:
            return ["(", value, " AT TIME ZONE ", zone, ")"]
        case "timezone", [value]:
            return ["(", value, " AT LOCAL)"]
        case "overlaps", [a, b, c, d]:
            return ["((", a, ", ", b, ") OVERLAPS (", c, ", ", d, "))"]
        case "extract", [tree.Const(text=str(field)), value]:
            return [f"EXTRACT({field} FROM ", value, ")"]
        case "is_normalized", [value]:
            return ["(", value, " IS NORMALIZED)"]
        case "is_normalized", [value, tree.Const(text=str(form))]:
            return ["(", value, f" IS {form} NORMALIZED)"]
        case "normalize", [value]:
            return ["NORMALIZE(", value, ")"]
        case "normalize", [value, tree.Const(text=str(form))]:
            return ["NORMALIZE(", value, f", {form})"]
        case "overlay", [value, new, start, *length]:
            tail = [part for one in length for part in (" FOR ", one)]
            return ["OVERLAY(", value, " PLACING ", new, " FROM ", start, *tail, ")"]
        case "position", [value, needle]:
            return ["POSITION((", needle, ") IN (", value, "))"]
        case "substring", [value, tree.Expression() as start, *length] if start.type_oid == INT4:
            return ["SUBSTRING(", value, " FROM ", start, *(p for x in length for p in (" FOR ", x)), ")"]
        case "substring", [value, pattern, escape]:
            return ["SUBSTRING(", value, " SIMILAR ", pattern, " ESCAPE ", escape, ")"]
        case (("btrim" | "ltrim" | "rtrim"), [value, *characters]):
            word = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
            return [f"TRIM({word}", *(p for x in characters for p in (" ", x)), " FROM ", value, ")"]
    return None


def _is_on_operand(condition: tree.Expression) -> bool:
    """Whether a condition is ``operand = x``."""
    if not isinstance(condition, tree.Call) or condition.operator is None or len(condition.arguments) != 2:
        return False
    first = condition.arguments[0]
    while isinstance(first, tree.RelabelType | tree.Call) and first.form == "implicit":
        first = first.children[0]
    return isinstance(first, tree.CaseTestExpr)
