"""Parses an expression into a syntax tree by the rules of ``gram.y``.

This is an operator precedence parser with the precedences and associativities of ``gram.y``, which
it resolves as Bison does: it reads an operand, and then operators for as long as they bind more
tightly than the rule whose last operand is being read. A chain of operators without associativity,
such as ``a < b < c``, is an error. A sub-select, which no row filter may contain (rule B27), is
skipped up to its closing parenthesis.

*Rejected:* sqlglot's parser. Its precedences differ (``NOT a = b``, ``- 2 ^ 2``, ``a || b = c``,
``a < b IS NULL``), it replaces functions by those of other databases, and it accepts text that
PostgreSQL refuses. Only a program that parses the text itself could correct its tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from subscriber.postgres.expressions.parse import special_forms, syntax, type_names
from subscriber.postgres.sql.cursor import Cursor
from subscriber.postgres.sql.keywords import NOT_COLUMN_ID, RESERVED, TYPE_OR_FUNCTION_NAMES, column_names
from subscriber.postgres.sql.lexer import NEWEST, Kind

_OR, _AND, _NOT, _IS, _COMPARISON, _BETWEEN, _OP, _SUM, _PRODUCT, _POWER, _AT, _COLLATE, _SIGN, _CAST = range(1, 15)
"""The precedences of ``gram.y``, from the loosest to the tightest."""
_NOT_ASSOCIATIVE: Final = frozenset({_IS, _COMPARISON, _BETWEEN})
_SYMBOLS: Final = {
    **dict.fromkeys(("<", ">", "=", "<=", ">=", "<>"), _COMPARISON),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
    "^": _POWER,
    "::": _CAST,
}
_PATTERNS: Final = {"like": "~~", "ilike": "~~*", "similar": "~"}
_WORDS: Final = {
    **dict.fromkeys(("is", "isnull", "notnull"), _IS),
    **dict.fromkeys(("between", "in", "like", "ilike", "similar"), _BETWEEN),
    "or": _OR,
    "and": _AND,
    "operator": _OP,
    "at": _AT,
    "collate": _COLLATE,
}
_NEEDED_BEHIND: Final = {"operator": "(", "similar": "to"}
"""Operators only before this token, unlike in ``SUBSTRING (a SIMILAR b ESCAPE c)``."""
_OF_B_EXPR: Final = frozenset({"is", "operator"})
_QUERY_WORDS: Final = ("select", "values", "with", "table")
_SET_WORDS: Final = ("union", "intersect", "except", "order", "limit", "offset", "fetch", "for")


def parse(text: str, major: int = NEWEST) -> syntax.Node:
    """The syntax tree, as this version of PostgreSQL reads it; UsageError (22023) for a wrong
    precision.
    """
    cursor = Cursor(text, major, in_parentheses=True)
    node = read_expression(cursor)
    cursor.take(Kind.END)
    return node


def read_expression(cursor: Cursor) -> syntax.Node:
    """Read the longest expression (``a_expr``) at the cursor, with the errors of :func:`parse`."""
    return Parser(cursor).expression()


class Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def expression(self, above: int = 0, *, restricted: bool = False) -> syntax.Node:
        """Read ``a_expr``, or ``b_expr``, which excludes some operators, if restricted.

        ``above`` is the precedence of the rule whose last operand is read. Operators that do not
        bind more tightly are left to the caller.
        """
        node = self._operand(restricted=restricted)
        while True:
            precedence = self._next_precedence(restricted=restricted)
            if precedence < above or (precedence == above and above not in _NOT_ASSOCIATIVE) or not precedence:
                return node
            if precedence == above:
                raise self.cursor.error()
            node = self._continued(node, precedence, restricted=restricted)

    def expressions(self) -> tuple[syntax.Node, ...]:
        """Read one expression, or several that are separated by commas."""
        found = [self.expression()]
        while self.cursor.accept(","):
            found.append(self.expression())
        return tuple(found)

    # Operators ------------------------------------------------------------------------------------

    def _next_precedence(self, *, restricted: bool) -> int:
        lexeme = self.cursor.peek()
        if lexeme.kind is Kind.OPERATOR:
            return _OP
        if lexeme.kind is Kind.SYMBOL:
            return _SYMBOLS.get(lexeme.value, 0)
        if lexeme.kind is not Kind.WORD:
            return 0
        word = lexeme.value
        if restricted and word not in _OF_B_EXPR:
            return 0
        if word == "not":
            following = self.cursor.peek(1)
            return _BETWEEN if following.kind is Kind.WORD and _WORDS.get(following.value) == _BETWEEN else 0
        if word in _NEEDED_BEHIND and not self.cursor.at(word, _NEEDED_BEHIND[word]):
            return 0
        return _WORDS.get(word, 0)

    def _continued(self, left: syntax.Node, precedence: int, *, restricted: bool) -> syntax.Node:
        """Read the operator with this precedence and the operands behind it."""
        cursor, position = self.cursor, self.cursor.position
        if precedence in (_OR, _AND):
            kind = cursor.take(Kind.WORD).value
            return _combined("or" if kind == "or" else "and", left, self.expression(precedence), position)
        if precedence == _IS:
            return self._is(left, restricted=restricted)
        if precedence == _BETWEEN:
            return self._membership(left)
        if precedence == _CAST:
            cursor.expect("::")
            return syntax.TypeCast(position, left, type_names.read_type(cursor, self.expression))
        if precedence == _COLLATE:
            cursor.expect("collate")
            return syntax.CollateClause(position, left, cursor.names(NOT_COLUMN_ID))
        if precedence == _AT:
            return self._at_time_zone(left)
        names = self.operator()
        if not restricted and cursor.at_any("any", "some", "all"):
            return self._any_all(names, left, position)
        return syntax.AExpr(position, names, left, self.expression(precedence, restricted=restricted))

    def operator(self) -> tuple[str, ...]:
        """``qual_all_Op``: an operator, or ``OPERATOR (schema.op)``."""
        cursor = self.cursor
        if not cursor.accept("operator"):
            return (cursor.take(Kind.OPERATOR, Kind.SYMBOL).value,)
        cursor.expect("(")
        names = []
        while cursor.at_name(NOT_COLUMN_ID):
            names.append(cursor.name(NOT_COLUMN_ID))
            cursor.expect(".")
        lexeme = cursor.take(Kind.OPERATOR, Kind.SYMBOL)
        if lexeme.kind is Kind.SYMBOL and (lexeme.value not in _SYMBOLS or lexeme.value == "::"):
            cursor.place -= 1
            raise cursor.error()
        cursor.expect(")")
        return (*names, lexeme.value)

    def _any_all(self, names: tuple[str, ...], left: syntax.Node, position: int) -> syntax.Node:
        cursor = self.cursor
        use_or = cursor.accept_any("any", "some", "all") != "all"
        cursor.expect("(")
        if self._at_query():
            cursor.skip_parentheses()
            return syntax.NotSimple(position, "SubLink", (left,))
        right = self.expression()
        cursor.expect(")")
        return syntax.AnyAll(position, names, left, right, use_or)

    def _is(self, left: syntax.Node, *, restricted: bool) -> syntax.Node:
        cursor, position = self.cursor, self.cursor.position
        if not restricted and cursor.accept("isnull"):
            return syntax.IsNull(position, left, is_null=True)
        if not restricted and cursor.accept("notnull"):
            return syntax.IsNull(position, left, is_null=False)
        cursor.expect("is")
        negated = cursor.accept("not")
        if cursor.accept("distinct", "from"):
            return syntax.DistinctFrom(position, left, self.expression(_IS, restricted=restricted), negated)
        if cursor.accept("document"):
            return syntax.NotSimple(position, "IS DOCUMENT", (left,))
        if restricted:
            raise cursor.error()
        if cursor.accept("null"):
            return syntax.IsNull(position, left, is_null=not negated)
        if (value := cursor.accept_any("true", "false", "unknown")) is not None:
            return syntax.IsTruth(position, left, None if value == "unknown" else value == "true", negated)
        if cursor.major >= 16 and cursor.accept("json"):
            return self._is_json(left, position)
        form = cursor.accept_any("nfc", "nfd", "nfkc", "nfkd")
        cursor.expect("normalized")
        arguments = (left,) if form is None else (left, syntax.AConst(position, "string", form.upper()))
        test = syntax.FunctionCall(position, ("pg_catalog", "is_normalized"), arguments, special=True)
        return syntax.BooleanExpression(position, "not", (test,)) if negated else test

    def _is_json(self, left: syntax.Node, position: int) -> syntax.Node:
        cursor = self.cursor
        cursor.accept_any("value", "array", "object", "scalar")
        if cursor.accept("with", "unique") or cursor.accept("without", "unique"):
            cursor.accept("keys")
        return syntax.NotSimple(position, "JsonIsPredicate", (left,))

    def _membership(self, left: syntax.Node) -> syntax.Node:
        """``[NOT] BETWEEN``, ``IN``, ``LIKE``, ``ILIKE`` or ``SIMILAR TO`` with its operands."""
        cursor, position = self.cursor, self.cursor.position
        negated = cursor.accept("not")
        word = cursor.take(Kind.WORD).value
        if word == "between":
            symmetric = cursor.accept("symmetric")
            if not symmetric:
                cursor.accept("asymmetric")
            low = self.expression(restricted=True)
            cursor.expect("and")
            return syntax.Between(position, left, low, self.expression(_BETWEEN), negated, symmetric)
        if word == "in":
            cursor.expect("(")
            if self._at_query():
                cursor.skip_parentheses()
                return syntax.NotSimple(position, "SubLink", (left,))
            values = self.expressions()
            cursor.expect(")")
            return syntax.InList(position, left, values, negated)
        if word == "similar":
            cursor.expect("to")
        operator = ("!" if negated else "") + _PATTERNS[word]
        if word != "similar" and cursor.at_any("any", "some", "all"):
            return self._any_all((operator,), left, position)
        right = self.expression(_BETWEEN)
        if cursor.accept("escape"):
            function = "similar_to_escape" if word == "similar" else "like_escape"
            arguments = (right, self.expression(_BETWEEN))
            right = syntax.FunctionCall(position, ("pg_catalog", function), arguments)
        elif word == "similar":
            right = syntax.FunctionCall(position, ("pg_catalog", "similar_to_escape"), (right,))
        return syntax.AExpr(position, (operator,), left, right)

    def _at_time_zone(self, left: syntax.Node) -> syntax.Node:
        cursor, position = self.cursor, self.cursor.position
        cursor.expect("at")
        if cursor.accept("local"):
            return syntax.FunctionCall(position, ("pg_catalog", "timezone"), (left,), special=True)
        cursor.expect("time", "zone")
        zone = self.expression(_AT)
        return syntax.FunctionCall(position, ("pg_catalog", "timezone"), (zone, left), special=True)

    # Operands -------------------------------------------------------------------------------------

    def _operand(self, *, restricted: bool) -> syntax.Node:
        cursor, position = self.cursor, self.cursor.position
        if not restricted and cursor.accept("not"):
            return syntax.BooleanExpression(position, "not", (self.expression(_NOT),))
        if cursor.accept("+"):
            return syntax.AExpr(position, ("+",), None, self.expression(_SIGN, restricted=restricted))
        if cursor.accept("-"):
            return _negative(self.expression(_SIGN, restricted=restricted), position)
        if cursor.peek().kind is Kind.OPERATOR or cursor.at("operator", "("):
            names = self.operator()
            return syntax.AExpr(position, names, None, self.expression(_OP, restricted=restricted))
        node = self._primary()
        if isinstance(node, syntax.RowLiteral) and not restricted and cursor.at("overlaps"):
            return self._overlaps(node, position)
        return node

    def _overlaps(self, left: syntax.RowLiteral, position: int) -> syntax.Node:
        cursor = self.cursor
        cursor.expect("overlaps")
        right = self._primary()
        if not isinstance(right, syntax.RowLiteral):
            raise cursor.error()
        special_forms.check_overlaps(self, left, right)
        return syntax.FunctionCall(position, ("pg_catalog", "overlaps"), (*left.fields, *right.fields), special=True)

    def _primary(self) -> syntax.Node:
        """``c_expr``."""
        cursor, lexeme = self.cursor, self.cursor.peek()
        match lexeme.kind:
            case Kind.INTEGER:
                return syntax.AConst(lexeme.start, "integer", cursor.take(Kind.INTEGER).value)
            case Kind.FLOAT:
                return syntax.AConst(lexeme.start, "float", cursor.take(Kind.FLOAT).value)
            case Kind.STRING:
                return syntax.AConst(lexeme.start, "string", cursor.take(Kind.STRING).value)
            case Kind.BITS:
                return syntax.AConst(lexeme.start, "bits", cursor.take(Kind.BITS).value)
            case Kind.PARAMETER:
                return self._indirection(syntax.ParamRef(lexeme.start, cursor.take(Kind.PARAMETER).value))
            case Kind.SYMBOL if cursor.accept("("):
                return self._parenthesised(lexeme.start)
            case Kind.IDENTIFIER:
                return self._named()
            case Kind.WORD:
                return self._word()
        raise cursor.error()

    def _parenthesised(self, position: int) -> syntax.Node:
        cursor = self.cursor
        if self._at_query():
            cursor.skip_parentheses()
            return self._indirection(syntax.NotSimple(position, "SubLink"))
        node = self.expression()
        if cursor.accept(","):
            fields = (node, *self.expressions())
            cursor.expect(")")
            return syntax.RowLiteral(position, fields)
        if isinstance(node, syntax.NotSimple) and cursor.at_any(*_SET_WORDS):
            cursor.skip_parentheses()
        else:
            cursor.expect(")")
        return self._indirection(node)

    def _at_query(self) -> bool:
        return self.cursor.at_any(*_QUERY_WORDS)

    def _word(self) -> syntax.Node:
        cursor, position = self.cursor, self.cursor.position
        word = cursor.peek().value
        if word in ("true", "false", "null"):
            cursor.take(Kind.WORD)
            if word == "null":
                return syntax.AConst(position, "null", "")
            return syntax.AConst(position, "boolean", word)
        if (form := special_forms.read(self, word)) is not None:
            return form
        if word in type_names.TYPE_WORDS and (literal := self._typed_literal()) is not None:
            return literal
        return self._named()

    def _typed_literal(self) -> syntax.Node | None:
        """A literal such as ``date '…'``, whose type name is a keyword, if one comes next."""
        cursor, position, place = self.cursor, self.cursor.position, self.cursor.place
        if (cursor.at("double") and not cursor.at("double", "precision")) or (
            cursor.at("national") and cursor.peek(1).value not in ("character", "char")
        ):
            return None
        name = type_names.read_literal_type(cursor, self.expression)
        if cursor.peek().kind is not Kind.STRING:
            if cursor.place > place + 1:
                raise cursor.error()
            cursor.place = place
            return None
        constant = syntax.AConst(cursor.position, "string", cursor.take(Kind.STRING).value)
        if name.names[-1] == "interval" and not name.modifiers:
            name = replace(name, modifiers=type_names.interval_fields(cursor))
        return syntax.TypeCast(position, constant, name)

    def _named(self) -> syntax.Node:
        """A column, a function call, or a string constant behind the name of its type."""
        cursor, position = self.cursor, self.cursor.position
        bare = cursor.peek().value if cursor.peek().kind is Kind.WORD else None
        if bare in RESERVED:
            raise cursor.error()
        first = cursor.name()
        parts = self._indirection_parts()
        names = [first, *(part for part in parts if isinstance(part, str))]
        callable_name = len(names) == len(parts) + 1 and not (
            (bare in column_names(cursor.major) and not parts) or (bare in TYPE_OR_FUNCTION_NAMES and parts)
        )
        if callable_name and cursor.at("("):
            call = special_forms.read_call(self, tuple(names), position)
            return self._literal_of(call, position)
        if callable_name and cursor.peek().kind is Kind.STRING:
            constant = syntax.AConst(cursor.position, "string", cursor.take(Kind.STRING).value)
            return syntax.TypeCast(position, constant, syntax.TypeName(position, tuple(names)))
        if bare in TYPE_OR_FUNCTION_NAMES:
            raise cursor.error()
        split = next((place for place, part in enumerate(parts) if isinstance(part, tuple)), len(parts))
        columns = tuple(part for part in parts[:split] if not isinstance(part, tuple))
        column = syntax.ColumnRef(position, (first, *columns))
        return column if split == len(parts) else syntax.Indirection(position, column, tuple(parts[split:]))

    def _literal_of(self, call: syntax.FunctionCall, position: int) -> syntax.Node:
        """``func_name ( func_arg_list ) Sconst``, where the arguments are type modifiers."""
        cursor = self.cursor
        if cursor.peek().kind is not Kind.STRING or call.star or call.decorated or call.over or call.variadic:
            return call
        constant = syntax.AConst(cursor.position, "string", cursor.take(Kind.STRING).value)
        return syntax.TypeCast(position, constant, syntax.TypeName(position, call.names, call.arguments))

    def _indirection(self, node: syntax.Node) -> syntax.Node:
        parts = self._indirection_parts()
        return syntax.Indirection(node.position, node, tuple(parts)) if parts else node

    def _indirection_parts(self) -> list[str | tuple[syntax.Node | None, ...] | None]:
        cursor = self.cursor
        parts: list[str | tuple[syntax.Node | None, ...] | None] = []
        while True:
            if cursor.accept("."):
                parts.append(None if cursor.accept("*") else cursor.name())
            elif cursor.accept("["):
                parts.append(self._subscript())
            else:
                return parts

    def _subscript(self) -> tuple[syntax.Node | None, ...]:
        cursor = self.cursor
        low = None if cursor.at(":") else self.expression()
        if low is not None and cursor.accept("]"):
            return (low,)
        cursor.expect(":")
        high = None if cursor.at("]") else self.expression()
        cursor.expect("]")
        return (low, high)


def _combined(kind: str, left: syntax.Node, right: syntax.Node, position: int) -> syntax.Node:
    """``makeAndExpr``, ``makeOrExpr``: ``(a AND b) AND c`` is one node, too."""
    which = "or" if kind == "or" else "and"
    if isinstance(left, syntax.BooleanExpression) and left.kind == which:
        return syntax.BooleanExpression(left.position, left.kind, (*left.arguments, right))
    return syntax.BooleanExpression(position, which, (left, right))  # type: ignore[arg-type]


def _negative(node: syntax.Node, position: int) -> syntax.Node:
    """``doNegate``: the sign of a numeric constant becomes part of it."""
    if isinstance(node, syntax.AConst) and node.kind in ("integer", "float"):
        value = node.value.removeprefix("-") if node.value.startswith("-") else "-" + node.value
        return replace(node, position=position, value=value)
    return syntax.AExpr(position, ("-",), None, node)
