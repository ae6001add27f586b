"""Translation of PostgreSQL's expressions to the target's SQL, if they are known to mean the same.

::

    pg_get_expr ──▶ sqlglot's tree ──▶ a closed list of nodes, each with its kind of value ──▶ SQL
                                       └─▶ anything else: NotKnown, with the name of what is not known

An expression that is only nearly right computes wrong rows, or refuses rows that PostgreSQL
accepts. So a node is written only if it is in the list, and only for the kinds of values for which
the target computes the same (:class:`TranslationRules` has what differs between targets):

- integers, without division (the result has another type in some databases);
- numbers with a fixed number of digits, dates and timestamps: compared only, and only where the
  target stores them as such;
- texts without ordering, because collations differ, and only in columns that compare exactly;
- truth values, and NULL.

``pg_get_expr`` puts every operation in parentheses. sqlglot's precedence is not PostgreSQL's, so an
operand that is an operation without parentheses is refused.

*Rejected:* sqlglot's own transpilation. It always finds some SQL for the other dialect and never
reports that this SQL has another meaning: ``numeric`` arithmetic becomes floating-point arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from subscriber.base.digits import parse_int
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.postgres.types.registry import family_of

Kind = Literal["number", "decimal", "text", "truth", "date", "moment", "null", "other"]
"""Two kinds are never compared. Of the kind "other" only whether a value is NULL is known."""
_Written = tuple[Kind, str]
_Node = Any
"""The name of the base class of sqlglot's nodes depends on its version."""

_TEXTS: Final = frozenset({25, 1043})
"""The type character is not among them: it ignores the blanks with which it pads its values."""
_TYPES: Final = exp.DataType.Type
_TEXT_CASTS: Final = frozenset({_TYPES.TEXT, _TYPES.VARCHAR})
_NUMBER_CASTS: Final = frozenset({_TYPES.SMALLINT, _TYPES.INT, _TYPES.BIGINT})

_ARITHMETIC: Final[Mapping[type, str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_EQUALITY: Final[Mapping[type, str]] = {exp.EQ: "=", exp.NEQ: "<>"}
_ORDER: Final[Mapping[type, str]] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_COMPARISONS: Final[Mapping[type, str]] = {**_EQUALITY, **_ORDER}
_LOGIC: Final[Mapping[type, str]] = {exp.And: "AND", exp.Or: "OR"}
_ORDERED: Final = frozenset({"number", "decimal", "date", "moment"})
_OTHER_OPERATORS: Final[Mapping[type, str]] = {
    exp.Div: "/",
    exp.Like: "~~",
    exp.ILike: "~~*",
    exp.RegexpLike: "~",
    exp.Is: "IS",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
}


class NotKnown(Exception):
    """A part, such as ``function lower``, is not known to mean the same in the target."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRules:
    """Formats with ``{left}`` and ``{right}``, or ``{text}``, and names of functions. There is no
    ``date`` where dates are not supported. ``loose`` functions differ for some values, but never
    fail, and give one value for one argument: enough for an index that is not unique.
    """

    quote: Callable[[str], str]
    length: str = "length"
    concat: str = "{left} || {right}"
    date: str | None = None
    distinct: str = "{left} IS DISTINCT FROM {right}"
    loose: Mapping[str, str] = field(default_factory=lambda: {"lower": "lower", "upper": "upper"})


def kind_of(type_oid: int) -> Kind:
    """The kind of a type whose values every target stores as such; "other" for other types."""
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return "truth"
    if pa.types.is_integer(arrow_type):
        return "number"
    return "text" if type_oid in _TEXTS else "other"


def translate(
    expression: str,
    columns: Mapping[str, _Written],
    rules: TranslationRules,
    *,
    enums: Collection[str] = (),
    loose: bool = False,
) -> str:
    """The expression (``pg_get_expr``'s, with an empty search_path) in the target's SQL, or
    NotKnown. ``columns`` has each column's kind and text; ``enums`` are stored as texts
    (``format_type``).
    """
    try:
        tree = parse_one(expression, dialect="postgres")
    except SqlglotError:
        raise NotKnown("an expression of this form") from None
    return _Translation(columns, rules, frozenset(enums), loose=loose).write(tree)[1]


def plain_columns(types: Mapping[str, int], quote: Callable[[str], str]) -> dict[str, _Written]:
    return {name: (kind_of(type_oid), quote(name)) for name, type_oid in types.items()}


class _Translation:
    def __init__(
        self, columns: Mapping[str, _Written], rules: TranslationRules, enums: frozenset[str], *, loose: bool
    ) -> None:
        self._columns = columns
        self._rules = rules
        self._enums = enums
        self._loose = loose

    def write(self, node: _Node) -> _Written:
        match node:
            case exp.Paren():
                kind, written = self.write(node.this)
                return kind, f"({written})"
            case exp.Column() if not node.table:
                return self._column(node.name)
            case exp.Literal():
                return ("text", _string(node.name)) if node.is_string else _number(node.name)
            case exp.Boolean():
                return "truth", "TRUE" if node.this else "FALSE"
            case exp.Null():
                return "null", "NULL"
            case exp.Cast():
                return self._cast(node)
            case exp.Neg():
                return "number", f"-{self._of(node, node.this, 'number')}"
            case exp.Not() if isinstance(node.this, exp.Is):
                return self._is(node.this, negated=True)
            case exp.Not():
                return "truth", f"NOT {self._of(node, node.this, 'truth')}"
            case exp.Is():
                return self._is(node, negated=bool(node.args.get("negate")))
            case exp.Binary():
                return self._binary(node)
            case exp.Func():
                return self._function(node)
        raise NotKnown("an expression of this form")

    def _column(self, name: str) -> _Written:
        if name not in self._columns:
            raise NotKnown(f'column "{name}", which is not replicated,')
        return self._columns[name]

    def _cast(self, node: _Node) -> _Written:
        to = node.to
        if to.this in _TEXT_CASTS and not to.expressions:
            return "text", self._of(node, node.this, "text")
        if to.this in _NUMBER_CASTS and isinstance(node.this, exp.Literal):
            # PostgreSQL stores a negative number in this form: '-5'::integer.
            digits = node.this.name.removeprefix("-")
            return "number", f"({'-' if digits != node.this.name else ''}{_integer(digits)})"
        if to.this is _TYPES.BIGINT and not isinstance(node.this, exp.Literal):
            return "number", self._of(node, node.this, "number")  # every integer is a bigint
        if to.this is _TYPES.DECIMAL and not to.expressions and not isinstance(node.this, exp.Literal):
            kind, written = self._operand(node, node.this)
            if kind in ("number", "decimal"):
                return "decimal", written
        if to.this is _TYPES.DATE and isinstance(node.this, exp.Literal) and self._rules.date is not None:
            text = node.this.name
            if len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdecimal():
                return "date", self._rules.date.format(text=text)
        name = to.sql(dialect="postgres")
        if isinstance(node.this, exp.Literal) and name in self._enums:
            return "text", _string(node.this.name)
        raise NotKnown(f"a cast to {name.replace('DECIMAL', 'numeric').lower() if name.isupper() else name}")

    def _binary(self, node: _Node) -> _Written:
        kind = type(node)
        if kind in _ARITHMETIC:
            return "number", self._infix(node, _ARITHMETIC[kind], "number")
        if kind is exp.DPipe:
            left, right = (self._of(node, side, "text") for side in (node.this, node.expression))
            return "text", self._rules.concat.format(left=left, right=right)
        if kind in _LOGIC:
            return "truth", self._infix(node, _LOGIC[kind], "truth")
        if kind is exp.EQ and isinstance(node.expression, exp.Any):
            return "truth", self._any_of(node)
        if kind in _ORDER or kind in _EQUALITY:
            found, _ = self._operand(node, node.this)
            if kind in _EQUALITY or found in _ORDERED:
                return "truth", self._infix(node, _COMPARISONS[kind], found)
            raise NotKnown(f"the order of {_described(node.this, found)}")
        if kind in (exp.NullSafeNEQ, exp.NullSafeEQ):
            found, left = self._operand(node, node.this)
            distinct = self._rules.distinct.format(left=left, right=self._of(node, node.expression, found))
            return "truth", distinct if kind is exp.NullSafeNEQ else f"NOT ({distinct})"
        raise NotKnown(f"operator {_OTHER_OPERATORS.get(kind, node.key)}")

    def _infix(self, node: _Node, operator: str, kind: Kind) -> str:
        return f"{self._of(node, node.this, kind)} {operator} {self._of(node, node.expression, kind)}"

    def _is(self, node: _Node, *, negated: bool) -> _Written:
        _, left = self._operand(node, node.this)
        if not isinstance(node.expression, exp.Null):
            raise NotKnown("operator IS TRUE or IS FALSE")
        return "truth", f"{left} IS {'NOT ' if negated else ''}NULL"

    def _function(self, node: _Node) -> _Written:
        match node:
            case exp.Coalesce():
                arguments = [node.this, *node.expressions]
                kind, _ = self.write(arguments[0])
                return kind, f"coalesce({', '.join(self._of(None, one, kind) for one in arguments)})"
            case exp.Length():
                return "number", f"{self._rules.length}({self._of(None, node.this, 'text')})"
            case exp.Abs():
                return "number", f"abs({self._of(None, node.this, 'number')})"
            case exp.Nullif():
                kind, left = self.write(node.this)
                return kind, f"nullif({left}, {self._of(None, node.expression, kind)})"
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        if self._loose and name in self._rules.loose:
            return "text", f"{self._rules.loose[name]}({self._of(None, node.this, 'text')})"
        written = node.sql(dialect="postgres").partition("(")[0].lower()  # sqlglot has names of its own
        raise NotKnown(f"function {written if written.isidentifier() else name}")

    def _any_of(self, node: _Node) -> str:
        """``x = ANY (ARRAY[…])``: PostgreSQL stores ``x IN (…)`` in this form."""
        array = node.expression.this
        while isinstance(array, exp.Paren | exp.Cast):
            array = array.this
        if not isinstance(array, exp.Array) or not array.expressions:
            raise NotKnown("operator ANY")
        kind, left = self._operand(node, node.this)
        return f"{left} IN ({', '.join(self._of(None, one, kind) for one in array.expressions)})"

    def _operand(self, parent: _Node | None, node: _Node) -> _Written:
        """An operation is in parentheses, as ``pg_get_expr`` writes it."""
        chained = type(node) is type(parent) and type(node) in _LOGIC  # (a AND b AND c)
        if parent is not None and isinstance(node, exp.Binary | exp.Not | exp.Neg) and not chained:
            raise NotKnown("an operation without parentheses")
        return self.write(node)

    def _of(self, parent: _Node | None, node: _Node, kind: Kind) -> str:
        found, written = self._operand(parent, node)
        if "other" in (found, kind):
            raise NotKnown(f"an operation with {_described(node, found)}")
        if found != kind:
            raise NotKnown(f"an operation of {kind} and {found} values")
        return written


def _described(node: _Node, kind: Kind) -> str:
    """An operand, for a message: constants are not shown."""
    columns = [f'column "{column.name}"' for column in node.find_all(exp.Column)]
    return columns[0] if columns else f"{kind} values"


def _string(text: str) -> str:
    if "\0" in text or "\\" in text:
        raise NotKnown("a text constant with a backslash")
    return quote_literal(text)


def _number(text: str) -> _Written:
    whole, point, rest = text.partition(".")
    if point and whole.isdecimal() and rest.isdecimal():
        return "decimal", text
    return "number", _integer(text)


def _integer(text: str) -> str:
    if not text.isdecimal() or parse_int(text) >= 2**63:
        raise NotKnown("a number of this size")
    return text
