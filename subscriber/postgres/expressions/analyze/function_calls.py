"""Calls of functions: which function a call means, and the conversion of its arguments
(``ParseFuncOrColumn`` and ``func_get_detail``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.candidates import (
    FunctionCandidate,
    function_candidates,
    matching,
    select,
)
from subscriber.postgres.expressions.analyze.coerce import Coercions
from subscriber.postgres.expressions.analyze.column_references import Columns
from subscriber.postgres.expressions.analyze.polymorphic import enforce_generic_types
from subscriber.postgres.expressions.analyze.typeinfo import ANY, UNKNOWN, Schemas
from subscriber.postgres.expressions.builtin_catalog import Function
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.parser import parse


class FunctionCalls:
    """Makes calls of functions. Their syntax may also mean a cast, or a column of the row."""

    def __init__(
        self,
        coercions: Coercions,
        schemas: Schemas,
        columns: Columns,
        analyze: Callable[[syntax.Node], tree.Expression],
    ) -> None:
        self._coercions = coercions
        self._catalog = coercions.catalog
        self._types = coercions.types
        self._schemas = schemas
        self._columns = columns
        self._analyze = analyze

    def call(self, node: syntax.FunctionCall) -> tree.Expression:
        """``ParseFuncOrColumn``."""
        plain = not (node.star or node.variadic or node.decorated or node.over or any(node.argument_names))
        if plain and len(node.arguments) == 1 and len(node.names) == 1:
            column = self._columns.projection(node.names[0], node.arguments[0])
            if column is not None:
                return column
        arguments = [self._analyze(one) for one in node.arguments]
        inputs = [one.type_oid for one in arguments]
        self._schemas.of(node.names)
        names = node.argument_names if any(node.argument_names) else ()
        _check_names(names)
        candidates = function_candidates(
            self._coercions, node.names, len(arguments), names, expand_variadic=not node.variadic
        )
        chosen = next((one for one in candidates if list(one.arguments) == inputs), None)
        if chosen is None:
            as_cast = len(arguments) == 1 and not names
            if as_cast and (made := self._as_cast(node.names, arguments[0])) is not None:
                return made
            found = matching(self._coercions, inputs, candidates)
            chosen = found[0] if len(found) == 1 else select(self._coercions, inputs, found) if found else None
            if found and chosen is None:
                raise self._not_unique(node, inputs)
        if chosen is None:
            raise UsageError(
                f"function {self._signature(node, inputs)} does not exist",
                sqlstate="42883",
                hint="No function matches the given name and argument types. You might need to add explicit type casts.",
            )
        if chosen.ambiguous:
            raise self._not_unique(node, inputs)
        return self._made(node, chosen, arguments)

    def _as_cast(self, names: tuple[str, ...], argument: tree.Expression) -> tree.Expression | None:
        """The cast that ``numeric(a)`` means, which is tried if no function takes exactly this."""
        found = self._catalog.find_type(names[-2] if len(names) > 1 else None, names[-1])
        if found is None or found.kind == "c":
            return None
        if not (argument.type_oid == UNKNOWN and isinstance(argument, tree.Const)):
            path = self._coercions.path(found.oid, argument.type_oid, "explicit")
            if path is None or path.kind not in ("relabel", "io"):
                return None
            if path.kind == "io" and self._types.is_row(argument.type_oid) and found.category == "S":
                return None
        return self._coercions.coerce(argument, found.oid, -1, "explicit", "cast")

    def _made(
        self, node: syntax.FunctionCall, chosen: FunctionCandidate, arguments: list[tree.Expression]
    ) -> tree.Expression:
        function = chosen.function
        _check_kind(node, function)
        inputs = [one.type_oid for one in arguments]
        declared = list(chosen.arguments)
        defaults = [] if any(node.argument_names) else self._defaults(chosen)
        declared += function.arguments[len(function.arguments) - len(defaults) :] if defaults else ()
        inputs += [one.type_oid for one in defaults]
        types, result = enforce_generic_types(self._coercions, inputs, declared, function.result)
        made = self._coercions.converted([*arguments, *defaults], types)
        if any(node.argument_names):
            made = tuple(_named(one, name) for one, name in zip(made, node.argument_names, strict=True))
        if chosen.variadic_count and function.variadic != ANY:
            made = self._gathered(made, chosen.variadic_count)
        elif node.variadic and function.variadic == ANY and not self._types.base_element(made[-1].type_oid):
            # A constant of unknown type is not an array either.
            raise UsageError("VARIADIC argument must be an array", sqlstate="42804")
        if function.kind != "f":
            raise _misplaced(node, function)
        if function.returns_set:
            raise NotSupportedError("set-returning functions are not allowed in WHERE")
        return tree.Call(
            result,
            self._types.collation(result) if result in self._catalog.types else 0,
            self._catalog.signature(function),
            made,
            form="sql" if node.special else "call",
            variadic=bool(function.variadic)
            and (node.variadic or (chosen.variadic_count > 0 and function.variadic != ANY)),
            default_count=len(defaults),
        )

    def _defaults(self, chosen: FunctionCandidate) -> list[tree.Expression]:
        """The default values of the last arguments, which the call omits."""
        if not chosen.default_count:
            return []
        written = parse(f"row({chosen.function.defaults})")
        assert isinstance(written, syntax.RowLiteral)
        return [self._analyze(one) for one in written.fields[-chosen.default_count :]]

    def _gathered(self, arguments: Sequence[tree.Expression], count: int) -> tuple[tree.Expression, ...]:
        """The arguments with the last ones combined into one array."""
        types = self._types
        elements = tuple(arguments[-count:])
        array = types.array(elements[0].type_oid)
        if not array:
            name = types.name(elements[0].type_oid)
            raise UsageError(f"could not find array type for data type {name}", sqlstate="42704")
        return (*arguments[:-count], tree.ArrayExpr(array, types.collation(array), elements))

    # Errors ---------------------------------------------------------------------------------------

    def _signature(self, node: syntax.FunctionCall, inputs: list[int]) -> str:
        names = node.argument_names or (None,) * len(inputs)
        types = [
            self._types.name(oid) if name is None else f"{name} => {self._types.name(oid)}"
            for name, oid in zip(names, inputs, strict=True)
        ]
        return f"{'.'.join(node.names)}({', '.join(types)})"

    def _not_unique(self, node: syntax.FunctionCall, inputs: list[int]) -> UsageError:
        return UsageError(
            f"function {self._signature(node, inputs)} is not unique",
            sqlstate="42725",
            hint="Could not choose a best candidate function. You might need to add explicit type casts.",
        )


def _named(argument: tree.Expression, name: str | None) -> tree.Expression:
    if name is None:
        return argument
    return tree.Refused(argument.type_oid, argument.collation, "NamedArgExpr", (argument,))


def _check_names(names: tuple[str | None, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name is None and seen:
            raise UsageError("positional argument cannot follow named argument", sqlstate="42601")
        if name in seen:
            raise UsageError(f'argument name "{name}" used more than once', sqlstate="42601")
        seen |= {name} if name is not None else set()


_ORDERED_SET: Final = frozenset(
    {"mode", "percentile_cont", "percentile_disc", "rank", "dense_rank", "percent_rank", "cume_dist"}
)


def _check_kind(node: syntax.FunctionCall, function: Function) -> None:
    """Check the clauses that only aggregates and window functions accept or need."""
    written, name = ".".join(node.names), function.name
    message: str | None = None
    if function.kind == "p":
        raise UsageError(f"{written}() is a procedure", sqlstate="42809", hint="To call a procedure, use CALL.")
    if function.kind == "f":
        if node.star or node.decorated:
            found = f"{written}(*)" if node.star else node.decorated
            message = f"{found} specified, but {written} is not an aggregate function"
        elif node.over:
            message = f"OVER specified, but {written} is not a window function nor an aggregate function"
    elif function.kind == "w":
        if not node.over:
            message = f"window function {name} requires an OVER clause"
        elif node.decorated == "WITHIN GROUP":
            message = f"window function {name} cannot have WITHIN GROUP"
    elif name in _ORDERED_SET and node.decorated != "WITHIN GROUP":
        message = f"WITHIN GROUP is required for ordered-set aggregate {name}"
    elif name not in _ORDERED_SET and node.decorated == "WITHIN GROUP":
        message = f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
    if message is not None:
        raise UsageError(message, sqlstate="42809")


def _misplaced(node: syntax.FunctionCall, function: Function) -> UsageError:
    """The error for an aggregate or a window function whose arguments are correct."""
    if function.kind == "a" and not node.arguments and not node.star:
        return UsageError(
            f"{function.name}(*) must be used to call a parameterless aggregate function", sqlstate="42809"
        )
    if node.over:
        return UsageError("window functions are not allowed in WHERE", sqlstate="42P20")
    return UsageError("aggregate functions are not allowed in WHERE", sqlstate="42803")
