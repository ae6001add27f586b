"""Assigns a collation to every value, and to every function that compares (``parse_collate.c``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.typeinfo import Types

DEFAULT: Final = 100
"""The collation of the database."""


class Strength(IntEnum):
    """How a collation was derived (``CollateStrength``)."""

    NONE = 0
    IMPLICIT = 1
    CONFLICT = 2
    EXPLICIT = 3


@dataclass(frozen=True, slots=True)
class State:
    collation: int = 0
    strength: Strength = Strength.NONE


class Collations:
    """Assigns collations to the nodes of a tree, from the leaves upwards."""

    def __init__(self, types: Types) -> None:
        self._types = types

    def assign(self, node: tree.Expression) -> tree.Expression:
        """``assign_expr_collations``."""
        return self._walk(node)[0]

    def _walk(self, node: tree.Expression) -> tuple[tree.Expression, State]:
        match node:
            case tree.CollateExpr():
                argument, _ = self._walk(node.argument)
                return replace(node, argument=argument), State(node.collation, Strength.EXPLICIT)
            case tree.Var() | tree.Const() | tree.CaseTestExpr():
                return node, State(node.collation, Strength.IMPLICIT if node.collation else Strength.NONE)
            case tree.RowExpr():
                # The collations of the fields are independent of each other.
                return replace(node, fields=tuple(self.assign(field) for field in node.fields)), State()
            case tree.RowCompareExpr():
                return self._row_comparison(node)
            case tree.CaseExpr():
                return self._case(node)
        inner = State()

        def walk(child: tree.Expression) -> tree.Expression:
            nonlocal inner
            made, own = self._walk(child)
            inner = self._merged(inner, own)
            return made

        return self._finished(node.mapped(walk), inner)

    def _walk_all(self, nodes: Sequence[tree.Expression]) -> tuple[tuple[tree.Expression, ...], State]:
        found = []
        state = State()
        for node in nodes:
            made, own = self._walk(node)
            found.append(made)
            state = self._merged(state, own)
        return tuple(found), state

    def _finished(self, node: tree.Expression, inner: State) -> tuple[tree.Expression, State]:
        own = self._types.collation(node.type_oid) if node.type_oid in self._types.catalog.types else 0
        if not own:
            state = State()
        elif inner.strength > Strength.NONE:
            state = inner
        else:
            state = State(own, Strength.IMPLICIT)
        node = replace(node, collation=0 if state.strength is Strength.CONFLICT else state.collation)
        if isinstance(node, tree.Call | tree.MinMaxExpr):
            node = replace(node, input_collation=0 if inner.strength is Strength.CONFLICT else inner.collation)
        return node, state

    def _row_comparison(self, node: tree.RowCompareExpr) -> tuple[tree.Expression, State]:
        pairs = [self._walk_all(pair) for pair in zip(node.left, node.right, strict=True)]
        made = replace(
            node,
            left=tuple(pair[0] for pair, _ in pairs),
            right=tuple(pair[1] for pair, _ in pairs),
            input_collations=tuple(0 if s.strength is Strength.CONFLICT else s.collation for _, s in pairs),
        )
        return made, State()

    def _case(self, node: tree.CaseExpr) -> tuple[tree.Expression, State]:
        """The operand already has its collations; conditions do not affect the result's."""
        state = State()
        whens = []
        for condition, result in node.whens:
            made, own = self._walk(result)
            whens.append((self.assign(condition), made))
            state = self._merged(state, own)
        default, own = self._walk(node.default)
        return self._finished(replace(node, whens=tuple(whens), default=default), self._merged(state, own))

    def _merged(self, state: State, other: State) -> State:
        """``merge_collation_state`` of two children."""
        if other.strength > state.strength:
            return other
        if other.strength < state.strength or other.collation == state.collation:
            return state
        if state.strength is Strength.IMPLICIT:
            if state.collation == DEFAULT:
                return other
            return state if other.collation == DEFAULT else State(0, Strength.CONFLICT)
        if state.strength is Strength.EXPLICIT:
            names = (f'"{self._name(one.collation)}"' for one in (state, other))
            message = f"collation mismatch between explicit collations {' and '.join(names)}"
            raise UsageError(message, sqlstate="42P21")
        return state

    def _name(self, oid: int) -> str:
        return self._types.catalog.collation_name(oid) or str(oid)
