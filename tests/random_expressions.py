"""Random expressions over a table's columns, as SQL and as the tree that PostgreSQL's parser
builds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Literal, TypeAlias

from subscriber.postgres.expressions.analyze import tree

Written: TypeAlias = tuple[str, tree.Expression]
"""An expression: its SQL and its tree."""

BOOL, INT4, TEXT, FLOAT8, NUMERIC, RECORD = 16, 23, 25, 701, 1700, 2249
_ARRAYS: Final = {INT4: 1007, TEXT: 1009}
COLUMNS: Final = {
    "a": "int4",
    "b": "int4",
    "s": "text",
    "p": "bool",
    "x": "float8",
    "n": "numeric",
    "k": "int4[]",
    "t": "text[]",
}
"""The columns of the table that the expressions use."""
_ARRAY_COLUMNS: Final = {INT4: "k", TEXT: "t"}
_ARRAY_CONSTANTS: Final = {INT4: ("{}", "{1,NULL,2}", "{{1,2},{0,7}}"), TEXT: ("{}", "{NSW,b}", "{NULL,NSW}")}
_NAMES: Final = {BOOL: "bool", INT4: "int4", TEXT: "text", FLOAT8: "float8", NUMERIC: "numeric"}
_COLUMNS: Final = {BOOL: "p", INT4: "ab", TEXT: "s", FLOAT8: "x", NUMERIC: "n"}
_CONSTANTS: Final = {
    BOOL: ("t", "f"),
    INT4: ("0", "1", "2", "-1", "7", "2147483647"),
    TEXT: ("", "a", "b", "NSW", "ü"),
    FLOAT8: ("0", "1.5", "NaN", "-2"),
    NUMERIC: ("0", "1.50", "NaN", "-2.5"),
}
_PREFIXES: Final = {INT4: "int4", TEXT: "text", FLOAT8: "float8", NUMERIC: "numeric_", BOOL: "bool"}
_OPERATORS: Final = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_TEXT_NAMES: Final = {"<": "text_lt", "<=": "text_le", ">": "text_gt", ">=": "text_ge"}
_ARITHMETIC: Final = {
    INT4: {"+": "int4pl", "-": "int4mi", "*": "int4mul", "/": "int4div", "%": "int4mod"},
    FLOAT8: {"+": "float8pl", "-": "float8mi", "*": "float8mul", "/": "float8div"},
    NUMERIC: {"+": "numeric_add", "-": "numeric_sub", "*": "numeric_mul", "/": "numeric_div", "%": "numeric_mod"},
}
_COMPARED: Final = (INT4, INT4, INT4, TEXT, FLOAT8, NUMERIC, BOOL)


def _collation(type_oid: int) -> int:
    return 950 if type_oid == TEXT else 0


def _comparison(type_oid: int, operator: str) -> str:
    name = _TEXT_NAMES.get(operator) if type_oid == TEXT else None
    return f"{name or _PREFIXES[type_oid] + _OPERATORS[operator]}({_NAMES[type_oid]},{_NAMES[type_oid]})"


class Expressions:
    """Creates random expressions.

    Args:
        random: what decides.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def filter(self) -> Written:
        """A boolean expression."""
        return self.make(BOOL, 4)

    def make(self, type_oid: int, depth: int) -> Written:
        """An expression of a type, with at most ``depth`` levels."""
        if depth <= 0 or self._random.random() < 0.15:
            return self._leaf(type_oid)
        makes: list[Callable[[int, int], Written]] = [
            self._case,
            self._simple_case,
            self._coalesce,
            self._min_max,
            self._null_if,
        ]
        if type_oid == BOOL:
            makes = [
                *(
                    self._comparison,
                    self._and_or,
                    self._and_or,
                    self._and_or,
                    self._not,
                    self._null_test,
                    self._boolean_test,
                ),
                *(self._distinct, self._any_all, self._row_comparison, self._row_test, self._case, self._coalesce),
            ]
        elif type_oid in _ARITHMETIC:
            makes += [self._arithmetic] * 4
        return self._random.choice(makes)(type_oid, depth - 1)

    def _leaf(self, type_oid: int) -> Written:
        chance = self._random.random()
        collation = _collation(type_oid)
        if chance < 0.6:
            name = self._random.choice(_COLUMNS[type_oid])
            return name, tree.Var(type_oid, collation, name)
        text = None if chance < 0.65 else self._random.choice(_CONSTANTS[type_oid])
        written = "NULL" if text is None else f"'{text}'"
        return f"{written}::{_NAMES[type_oid]}", tree.Const(type_oid, collation, text)

    def _several(self, type_oid: int, depth: int, least: int = 2) -> tuple[list[str], tuple[tree.Expression, ...]]:
        made = [self.make(type_oid, depth) for _ in range(self._random.randint(least, 3))]
        return [sql for sql, _ in made], tuple(node for _, node in made)

    def _pair(self, type_oid: int, depth: int) -> tuple[str, str, tuple[tree.Expression, ...]]:
        (left, one), (right, other) = self.make(type_oid, depth), self.make(type_oid, depth)
        return left, right, (one, other)

    def _call(self, operator: str, type_oid: int, arguments: tuple[tree.Expression, ...]) -> tree.Call:
        return tree.Call(BOOL, 0, _comparison(type_oid, operator), arguments, operator, _collation(type_oid))

    def _comparison(self, _: int, depth: int) -> Written:
        type_oid, operator = self._random.choice(_COMPARED), self._random.choice(list(_OPERATORS))
        left, right, arguments = self._pair(type_oid, depth)
        return f"({left} {operator} {right})", self._call(operator, type_oid, arguments)

    def _arithmetic(self, type_oid: int, depth: int) -> Written:
        operator, name = self._random.choice(list(_ARITHMETIC[type_oid].items()))
        left, right, arguments = self._pair(type_oid, depth)
        signature = f"{name}({_NAMES[type_oid]},{_NAMES[type_oid]})"
        return f"({left} {operator} {right})", tree.Call(type_oid, 0, signature, arguments, operator)

    def _and_or(self, _: int, depth: int) -> Written:
        texts, arguments = self._several(BOOL, depth)
        if self._random.random() < 0.5:
            return f"({' AND '.join(texts)})", tree.BoolExpr(BOOL, 0, "and", arguments)
        return f"({' OR '.join(texts)})", tree.BoolExpr(BOOL, 0, "or", arguments)

    def _not(self, _: int, depth: int) -> Written:
        text, argument = self.make(BOOL, depth)
        return f"(NOT {text})", tree.BoolExpr(BOOL, 0, "not", (argument,))

    def _null_test(self, _: int, depth: int) -> Written:
        text, argument = self.make(self._random.choice(_COMPARED), depth)
        is_null = self._random.random() < 0.5
        return f"({text} IS {'' if is_null else 'NOT '}NULL)", tree.NullTest(BOOL, 0, argument, is_null)

    def _row_test(self, _: int, depth: int) -> Written:
        made = [self.make(self._random.choice(_COMPARED), depth - 1) for _ in range(self._random.randint(1, 3))]
        if self._random.random() < 0.2:
            made.append(("ROW(NULL::int4)", tree.RowExpr(RECORD, 0, (tree.Const(INT4, 0, None),))))
        row = tree.RowExpr(RECORD, 0, tuple(node for _, node in made))
        is_null = self._random.random() < 0.5
        return (
            f"(ROW({', '.join(sql for sql, _ in made)}) IS {'' if is_null else 'NOT '}NULL)",
            tree.NullTest(BOOL, 0, row, is_null),
        )

    def _boolean_test(self, _: int, depth: int) -> Written:
        text, argument = self.make(BOOL, depth)
        word, value = self._random.choice([("TRUE", True), ("FALSE", False), ("UNKNOWN", None)])
        negated = self._random.random() < 0.5
        return f"({text} IS {'NOT ' if negated else ''}{word})", tree.BooleanTest(BOOL, 0, argument, value, negated)

    def _distinct(self, _: int, depth: int) -> Written:
        type_oid = self._random.choice(_COMPARED)
        left, right, arguments = self._pair(type_oid, depth)
        node = tree.DistinctExpr(BOOL, 0, _comparison(type_oid, "="), arguments, "=", _collation(type_oid))
        return f"({left} IS DISTINCT FROM {right})", node

    def _any_all(self, _: int, depth: int) -> Written:
        type_oid, operator = self._random.choice([INT4, TEXT]), self._random.choice(["=", "=", "<>", "<", ">="])
        text, value = self.make(type_oid, depth)
        sql, array = self._random.choice([self._elements, self._array, self._arrays])(type_oid, depth)
        use_or, collation = self._random.random() < 0.5, _collation(type_oid)
        arguments = (value, array)
        return (
            f"({text} {operator} {'ANY' if use_or else 'ALL'} ({sql}))",
            tree.ScalarArrayOpExpr(
                BOOL, 0, _comparison(type_oid, operator), arguments, operator, collation, use_or=use_or
            ),
        )

    def _elements(self, type_oid: int, depth: int) -> Written:
        texts, elements = self._several(
            type_oid, self._random.choice([0, 0, depth - 1]), self._random.choice([0, 1, 3])
        )
        if self._random.random() < 0.2:
            texts, elements = texts * 3, elements * 3
        array = tree.ArrayExpr(_ARRAYS[type_oid], _collation(type_oid), elements)
        return f"ARRAY[{', '.join(texts)}]::{_NAMES[type_oid]}[]", array

    def _array(self, type_oid: int, _: int) -> Written:
        oid, collation = _ARRAYS[type_oid], _collation(type_oid)
        if self._random.random() < 0.5:
            name = _ARRAY_COLUMNS[type_oid]
            return name, tree.Var(oid, collation, name)
        text = self._random.choice([None, *_ARRAY_CONSTANTS[type_oid]])
        written = "NULL" if text is None else f"'{text}'"
        return f"{written}::{_NAMES[type_oid]}[]", tree.Const(oid, collation, text)

    def _arrays(self, type_oid: int, depth: int) -> Written:
        made = [self._array(type_oid, depth) for _ in range(self._random.randint(1, 2))]
        array = tree.ArrayExpr(_ARRAYS[type_oid], _collation(type_oid), tuple(node for _, node in made), nested=True)
        return f"ARRAY[{', '.join(sql for sql, _ in made)}]", array

    def _row_comparison(self, _: int, depth: int) -> Written:
        types = [self._random.choice(_COMPARED) for _ in range(self._random.randint(1, 3))] + [INT4]
        lefts = [self.make(type_oid, depth - 1) for type_oid in types]
        rights = [self.make(type_oid, depth - 1) for type_oid in types]
        operator: Literal["<", "<=", ">", ">="] = self._random.choice(("<", "<=", ">", ">="))
        node = tree.RowCompareExpr(
            BOOL,
            0,
            operator,
            tuple(_comparison(type_oid, operator) for type_oid in types),
            tuple(_comparison(type_oid, "=") for type_oid in types),
            tuple(one for _, one in lefts),
            tuple(one for _, one in rights),
            tuple(map(_collation, types)),
        )
        left, right = (", ".join(sql for sql, _ in side) for side in (lefts, rights))
        return f"(ROW({left}) {operator} ROW({right}))", node

    def _case(self, type_oid: int, depth: int) -> Written:
        made = [(self.make(BOOL, depth), self.make(type_oid, depth)) for _ in range(self._random.randint(1, 2))]
        return self._cases(type_oid, depth, "CASE", None, made)

    def _simple_case(self, type_oid: int, depth: int) -> Written:
        compared = self._random.choice([INT4, TEXT])
        text, operand = self.make(compared, depth)
        made = []
        for _ in range(self._random.randint(1, 2)):
            sql, value = self.make(compared, depth)
            test = self._call("=", compared, (tree.CaseTestExpr(compared, _collation(compared)), value))
            made.append(((sql, test), self.make(type_oid, depth)))
        return self._cases(type_oid, depth, f"CASE {text}", operand, made)

    def _cases(
        self,
        type_oid: int,
        depth: int,
        begin: str,
        operand: tree.Expression | None,
        made: Sequence[tuple[Written, Written]],
    ) -> Written:
        whens = " ".join(f"WHEN {condition} THEN {result}" for (condition, _), (result, _) in made)
        nodes = tuple((condition, result) for (_, condition), (_, result) in made)
        if self._random.random() < 0.3:
            default = tree.Const(type_oid, _collation(type_oid), None)
            return f"({begin} {whens} END)", tree.CaseExpr(type_oid, _collation(type_oid), operand, nodes, default)
        text, otherwise = self.make(type_oid, depth)
        return f"({begin} {whens} ELSE {text} END)", tree.CaseExpr(
            type_oid, _collation(type_oid), operand, nodes, otherwise
        )

    def _coalesce(self, type_oid: int, depth: int) -> Written:
        texts, arguments = self._several(type_oid, depth)
        return f"COALESCE({', '.join(texts)})", tree.CoalesceExpr(type_oid, _collation(type_oid), arguments)

    def _min_max(self, type_oid: int, depth: int) -> Written:
        greatest = self._random.random() < 0.5
        texts, arguments = self._several(type_oid, depth)
        collation = _collation(type_oid)
        node = tree.MinMaxExpr(type_oid, collation, greatest, arguments, _comparison(type_oid, "<"), collation)
        return f"{'GREATEST' if greatest else 'LEAST'}({', '.join(texts)})", node

    def _null_if(self, type_oid: int, depth: int) -> Written:
        left, right, arguments = self._pair(type_oid, depth)
        collation = _collation(type_oid)
        node = tree.NullIfExpr(type_oid, collation, _comparison(type_oid, "="), arguments, "=", collation)
        return f"NULLIF({left}, {right})", node
