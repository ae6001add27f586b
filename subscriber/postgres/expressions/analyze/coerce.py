"""The conversions that PostgreSQL's parser adds to an expression or that a cast requests
(``parse_coerce.c``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import polymorphic, tree, typeinfo
from subscriber.postgres.expressions.builtin_catalog import Catalog

Context = Literal["implicit", "assignment", "explicit"]
_RANK: Final = {"i": 0, "a": 1, "e": 2, "implicit": 0, "assignment": 1, "explicit": 2}
_STRINGS: Final = "S"
_VECTORS: Final = frozenset({22, 30})
_RECORD_ARRAY: Final = 2287
_NOT_EVEN_NULL: Final = frozenset(
    {
        *("trigger", "event_trigger", "language_handler", "internal"),
        *("fdw_handler", "index_am_handler", "tsm_handler", "table_am_handler"),
    }
)
"""The pseudo-types whose input functions are not strict and refuse every input, even NULL."""


@dataclass(frozen=True, slots=True)
class Path:
    """``CoercionPathType``: relabel, function (with its OID), io, array."""

    kind: Literal["relabel", "function", "io", "array"]
    function: int = 0


class Coercions:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.types = typeinfo.Types(catalog)

    # Which there are ------------------------------------------------------------------------------

    def path(self, target: int, source: int, context: Context) -> Path | None:
        """``find_coercion_pathway``; None if there is no conversion."""
        source, target = self.types.base(source), self.types.base(target)
        if source == target:
            return Path("relabel")
        cast = self.catalog.casts.get((source, target))
        if cast is not None:
            if _RANK[context] < _RANK[cast.context]:
                return None
            return {"f": Path("function", cast.function), "i": Path("io"), "b": Path("relabel")}[cast.method]
        if target not in _VECTORS:
            inner, outer = self.types.element(source), self.types.element(target)
            if inner and outer and self.path(outer, inner, context) is not None:
                return Path("array")
        if _RANK[context] >= _RANK["assignment"] and self.types.category(target) == _STRINGS:
            return Path("io")
        if context == "explicit" and self.types.category(source) == _STRINGS:
            return Path("io")
        return None

    def possible(self, sources: Sequence[int], targets: Sequence[int], context: Context = "implicit") -> bool:
        """``can_coerce_type`` for each pair of types."""
        generic = False
        for source, target in zip(sources, targets, strict=True):
            if target in {source, typeinfo.ANY}:
                continue
            if target in polymorphic.POLYMORPHIC:
                generic = True
                continue
            if source == typeinfo.UNKNOWN or self.path(target, source, context) is not None:
                continue
            if self._between_rows(source, target):
                continue
            return False
        return not generic or polymorphic.check_generic_types(self, sources, targets)

    def _between_rows(self, source: int, target: int) -> bool:
        if source == typeinfo.RECORD:
            return self._is_complex(target)
        if target == typeinfo.RECORD:
            return self._is_complex(source)
        element = self.types.element(source)
        return target == _RECORD_ARRAY and bool(element) and self._is_complex(element)

    def _is_complex(self, oid: int) -> bool:
        return self.types.get(self.types.base(oid)).kind == "c"

    # Making them ----------------------------------------------------------------------------------

    def coerce(
        self,
        node: tree.Expression,
        target: int,
        modifier: int = -1,
        context: Context = "implicit",
        form: tree.Form = "implicit",
    ) -> tree.Expression:
        """``coerce_type``; the conversion must exist."""
        source = node.type_oid
        if target == source or target in polymorphic.PASSED_AS_THEY_ARE:
            return node
        if target in polymorphic.POLYMORPHIC and source != typeinfo.UNKNOWN:
            base = self.types.base(source)
            return node if base == source else self._relabel(node, base, -1, form)
        if isinstance(node, tree.Const) and source == typeinfo.UNKNOWN:
            return self._constant(node, target, modifier)
        if isinstance(node, tree.CollateExpr):
            inner = self.coerce(node.argument, target, modifier, context, form)
            return replace(node, type_oid=target, argument=inner) if self.types.collation(target) else inner
        path = self.path(target, source, context)
        if path is None:  # a conversion between row types
            return node if target == typeinfo.RECORD else tree.Refused(target, 0, "Row", (node,))
        base, base_modifier = self.types.base_and_modifier(target, modifier)
        if path.kind == "relabel":
            if base != target:
                return self._domain(self.coerce(node, base, base_modifier, context, form), target)
            return self._relabel(node, target, -1, form)
        made = self._conversion(node, path, base, base_modifier, context, form)
        return made if base == target else self._domain(made, target)

    def converted(self, arguments: Sequence[tree.Expression], declared: Sequence[int]) -> tuple[tree.Expression, ...]:
        """``make_fn_arguments``."""
        return tuple(self.coerce(one, oid) for one, oid in zip(arguments, declared, strict=True))

    def coerce_to_target(
        self, node: tree.Expression, target: int, modifier: int, context: Context, form: tree.Form
    ) -> tree.Expression | None:
        """``coerce_to_target_type``; None if there is no such conversion."""
        if not self.possible([node.type_oid], [target], context):
            return None
        inner = node
        while isinstance(inner, tree.CollateExpr):
            inner = inner.argument
        made = self.coerce(inner, target, modifier, context, form)
        hide = made is not inner and not isinstance(made, tree.Const)
        made = self._with_modifier(made, target, modifier, context, form, hide=hide)
        if inner is not node and self.types.collation(target):
            return tree.CollateExpr(target, node.collation, made)
        return made

    def to_boolean(self, node: tree.Expression, construct: str) -> tree.Expression:
        """``coerce_to_boolean``."""
        if node.type_oid == typeinfo.BOOL:
            return node
        made = self.coerce_to_target(node, typeinfo.BOOL, -1, "assignment", "implicit")
        if made is None:
            name = self.types.name(node.type_oid)
            raise UsageError(f"argument of {construct} must be type boolean, not type {name}", sqlstate="42804")
        return made

    def to_common(self, node: tree.Expression, target: int, construct: str) -> tree.Expression:
        """``coerce_to_common_type``; the error names the construct."""
        if node.type_oid == target:
            return node
        if not self.possible([node.type_oid], [target]):
            names = f"{self.types.name(node.type_oid)} to {self.types.name(target)}"
            raise UsageError(f"{construct} could not convert type {names}", sqlstate="42846")
        return self.coerce(node, target)

    def common_type(self, nodes: Sequence[tree.Expression], construct: str | None) -> int:
        """``select_common_type``; 0 if there is none and no construct is given for an error."""
        return self.common_type_of([node.type_oid for node in nodes], construct)

    def common_type_of(self, oids: Sequence[int], construct: str | None) -> int:
        """:meth:`common_type` of types."""
        if oids[0] != typeinfo.UNKNOWN and len(set(oids)) == 1:
            return oids[0]
        chosen = self.types.base(oids[0])
        for oid in map(self.types.base, oids[1:]):
            if oid in (typeinfo.UNKNOWN, chosen):
                continue
            if chosen == typeinfo.UNKNOWN:
                chosen = oid
            elif self.types.category(oid) != self.types.category(chosen):
                if construct is None:
                    return 0
                names = f"{self.types.name(chosen)} and {self.types.name(oid)}"
                raise UsageError(f"{construct} types {names} cannot be matched", sqlstate="42804")
            elif (
                not self.types.get(chosen).preferred
                and self.possible([chosen], [oid])
                and not self.possible([oid], [chosen])
            ):
                chosen = oid
        return typeinfo.TEXT if chosen == typeinfo.UNKNOWN else chosen

    # Pieces ---------------------------------------------------------------------------------------

    def _constant(self, node: tree.Const, target: int, modifier: int) -> tree.Expression:
        base, base_modifier = self.types.base_and_modifier(target, modifier)
        # Only the input function of interval takes the type modifier, which restricts its fields.
        # For other types a length conversion follows.
        given = base_modifier if base == typeinfo.INTERVAL else -1
        made = tree.Const(base, self.types.collation(base), node.text, given)
        self._check_pseudo_type(base, node.text)
        if node.text is not None:
            made = typeinfo.checked_constant(made, self.catalog.major)
            if given >= 0:
                # The type modifier restricts the fields here. A later type modifier applies to the
                # restricted value.
                made = replace(made, text=typeinfo.output_text(made))
        return made if base == target else self._domain(made, target)

    def _check_pseudo_type(self, oid: int, text: str | None) -> None:
        """Refuse what the input functions of pseudo-types refuse: almost any text, or even NULL."""
        found = self.types.get(oid)
        if text is None and found.name not in _NOT_EVEN_NULL:
            return
        if oid in (typeinfo.RECORD, _RECORD_ARRAY):
            raise NotSupportedError("input of anonymous composite types is not implemented")
        if found.kind == "p" and not found.element and found.name not in ("cstring", "void", "unknown"):
            raise NotSupportedError(f"cannot accept a value of type {self.types.name(oid)}")

    def _domain(self, node: tree.Expression, target: int) -> tree.Expression:
        return tree.Refused(target, self.types.collation(target), "CoerceToDomain", (node,))

    def _relabel(self, node: tree.Expression, target: int, modifier: int, form: tree.Form) -> tree.Expression:
        return tree.RelabelType(target, self.types.collation(target), node, modifier, form)

    def _conversion(
        self, node: tree.Expression, path: Path, target: int, modifier: int, context: Context, form: tree.Form
    ) -> tree.Expression:
        """``build_coercion_expression``."""
        collation = self.types.collation(target)
        if path.kind != "function":
            what = "CoerceViaIO" if path.kind == "io" else "ArrayCoerceExpr"
            return tree.Refused(target, collation, what, (node,))
        function = self.catalog.functions[path.function]
        arguments = [node]
        if len(function.arguments) >= 2:
            arguments.append(tree.Const(typeinfo.INT4, 0, str(modifier)))
        if len(function.arguments) == 3:
            arguments.append(tree.Const(typeinfo.BOOL, 0, "t" if context == "explicit" else "f"))
        result = function.result
        if result == target or self.types.element(target):
            return tree.Call(target, collation, self.catalog.signature(function), tuple(arguments), form=form)
        # The result of the function has another type, whose bytes are relabeled as the target type.
        # For instance, smallint to oid calls int4(int2).
        made = tree.Call(
            result, self.types.collation(result), self.catalog.signature(function), tuple(arguments), form="implicit"
        )
        return self._relabel(made, target, -1, form)

    def _with_modifier(
        self, node: tree.Expression, target: int, modifier: int, context: Context, form: tree.Form, *, hide: bool
    ) -> tree.Expression:
        """``coerce_type_typmod``."""
        if modifier == modifier_of(node):
            return node
        if hide:
            node = _hidden(node)
        path = self._length_path(target) if modifier >= 0 else None
        if path is not None:
            return self._conversion(node, path, target, modifier, context, form)
        return self._apply_relabel(node, target, modifier, form)

    def _length_path(self, target: int) -> Path | None:
        """``find_typmod_coercion_function``."""
        cast = self.catalog.casts.get((target, target))
        if cast is not None and cast.method == "f":
            return Path("function", cast.function)
        element = self.types.element(target)
        if element and (cast := self.catalog.casts.get((element, element))) is not None:
            return Path("array", cast.function)
        return None

    def _apply_relabel(self, node: tree.Expression, target: int, modifier: int, form: tree.Form) -> tree.Expression:
        """``applyRelabelType``: it replaces relabels directly below, and a constant's type."""
        while isinstance(node, tree.RelabelType):
            node = node.argument
        if isinstance(node, tree.Const):
            return replace(node, type_oid=target, type_modifier=modifier)
        if node.type_oid == target and modifier_of(node) == modifier:
            return node
        return tree.RelabelType(target, self.types.collation(target), node, modifier, form)


def _hidden(node: tree.Expression) -> tree.Expression:
    """``hide_coercion_node``: a conversion that is not printed."""
    return replace(node, form="implicit") if isinstance(node, tree.Call | tree.RelabelType) else node


def modifier_of(node: tree.Expression) -> int:
    """``exprTypmod``."""
    match node:
        case tree.Var() | tree.Const() | tree.ComputedConst() | tree.RelabelType():
            return node.type_modifier
        case tree.NullIfExpr():
            return modifier_of(node.arguments[0])
        case tree.Call():
            return length_of(node)
        case tree.CollateExpr():
            return modifier_of(node.argument)
        case tree.CaseExpr():
            return _common_modifier(node, [node.default, *(result for _, result in node.whens)])
        case tree.CoalesceExpr() | tree.MinMaxExpr():
            return _common_modifier(node, node.arguments)
        case tree.ArrayExpr() if node.elements:
            modifiers = {modifier_of(element) for element in node.elements}
            return modifiers.pop() if len(modifiers) == 1 else -1
    return -1


def length_of(node: tree.Call) -> int:
    """``exprIsLengthCoercion``: the type modifier that a length conversion sets, or -1."""
    if node.form not in ("cast", "implicit") or len(node.arguments) not in (2, 3):
        return -1
    second = node.arguments[1]
    if isinstance(second, tree.Const) and second.type_oid == typeinfo.INT4 and second.text is not None:
        return int(second.text)
    if isinstance(second, tree.ComputedConst) and second.type_oid == typeinfo.INT4 and second.value is not None:
        return int(second.value)
    return -1


def _common_modifier(node: tree.Expression, parts: Sequence[tree.Expression]) -> int:
    modifiers = {modifier_of(part) for part in parts}
    same = len(modifiers) == 1 and all(part.type_oid == node.type_oid for part in parts)
    return modifiers.pop() if same else -1
