"""Text → syntax tree, by the rules of ``gram.y``.

A parser by precedences, as Bison's are: an operand is read, then operators as long as they bind more tightly than the rule whose
last operand is being read. The table of precedences is gram.y's, and so is what it says of each: left, right, or not associative,
where ``a < b < c`` is an error.

*Rejected:* sqlglot's parser. It follows precedences of its own (``NOT a = b``, ``- 2 ^ 2``, ``a || b = c``, ``a < b IS NULL``), takes
functions for others of the same meaning elsewhere, and accepts what PostgreSQL does not. To correct its tree one would have to know
which parentheses were written, and with that, to have parsed.

A sub-select is not read: no row filter may have one (rule B27), so it is skipped to its closing parenthesis.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from subscriber.filters.parse import special_forms, syntax
from subscriber.filters.parse.filter_lexer import Kind
from subscriber.filters.parse.token_reader import NOT_COLUMN_ID, Words, column_names
from subscriber.filters.parse.type_names import TYPE_WORDS, interval_fields, read_literal_type, read_type
from subscriber.sql.keywords import RESERVED, TYPE_OR_FUNCTION_NAMES

NEWEST: Final = 18
"""The version whose grammar this is."""
_OR, _AND, _NOT, _IS, _COMPARISON, _BETWEEN, _OP, _SUM, _PRODUCT, _POWER, _AT, _COLLATE, _SIGN, _CAST = range(1, 15)
"""gram.y's precedences, the loosest first."""
_NOT_ASSOCIATIVE: Final = frozenset({_IS, _COMPARISON, _BETWEEN})
_SYMBOLS: Final = {
    "<": _COMPARISON,
    ">": _COMPARISON,
    "=": _COMPARISON,
    "<=": _COMPARISON,
    ">=": _COMPARISON,
    "<>": _COMPARISON,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
    "^": _POWER,
    "::": _CAST,
}
_PATTERNS: Final = {"like": "~~", "ilike": "~~*", "similar": "~"}
_WORDS: Final = {
    "or": _OR,
    "and": _AND,
    "is": _IS,
    "isnull": _IS,
    "notnull": _IS,
    "between": _BETWEEN,
    "in": _BETWEEN,
    "like": _BETWEEN,
    "ilike": _BETWEEN,
    "similar": _BETWEEN,
    "operator": _OP,
    "at": _AT,
    "collate": _COLLATE,
}
_NEEDED_BEHIND: Final = {"operator": "(", "similar": "to"}
"""Words that are an operator only before these; ``SUBSTRING (a SIMILAR b ESCAPE c)`` has none."""
_OF_B_EXPR: Final = frozenset({"is", "operator"})
_QUERY_WORDS: Final = ("select", "values", "with", "table")
_SET_WORDS: Final = ("union", "intersect", "except", "order", "limit", "offset", "fetch", "for")


def parse(text: str, major: int = NEWEST) -> syntax.Node:
    """The syntax tree of an expression, as PostgreSQL of this version reads it.

    Raises:
        SQLSyntaxError: it does not parse.
    """
    parser = Parser(Words(text, major))
    node = parser.expression()
    parser.words.take(Kind.END)
    return node


class Parser:
    """Reads expressions from :attr:`words`."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def expression(self, above: int = 0, *, restricted: bool = False) -> syntax.Node:
        """``a_expr``, or ``b_expr`` if restricted, as the last operand of a rule of precedence ``above``."""
        node = self._operand(restricted=restricted)
        while True:
            precedence = self._next_precedence(restricted=restricted)
            if precedence < above or (precedence == above and above not in _NOT_ASSOCIATIVE) or not precedence:
                return node
            if precedence == above:
                raise self.words.error()
            node = self._continued(node, precedence, restricted=restricted)

    def expressions(self) -> tuple[syntax.Node, ...]:
        """One expression, or several with commas between them."""
        found = [self.expression()]
        while self.words.accept(","):
            found.append(self.expression())
        return tuple(found)

    # Operators --------------------------------------------------------------------------------------

    def _next_precedence(self, *, restricted: bool) -> int:
        lexeme = self.words.peek()
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
            following = self.words.peek(1)
            return _BETWEEN if following.kind is Kind.WORD and _WORDS.get(following.value) == _BETWEEN else 0
        if word in _NEEDED_BEHIND and not self.words.at(word, _NEEDED_BEHIND[word]):
            return 0
        return _WORDS.get(word, 0)

    def _continued(self, left: syntax.Node, precedence: int, *, restricted: bool) -> syntax.Node:
        """The rule that goes on behind its first operand."""
        words, position = self.words, self.words.position
        if precedence in (_OR, _AND):
            kind = words.take(Kind.WORD).value
            return _combined("or" if kind == "or" else "and", left, self.expression(precedence), position)
        if precedence == _IS:
            return self._is(left, restricted=restricted)
        if precedence == _BETWEEN:
            return self._membership(left)
        if precedence == _CAST:
            words.expect("::")
            return syntax.TypeCast(position, left, read_type(words, self.expression))
        if precedence == _COLLATE:
            words.expect("collate")
            return syntax.CollateClause(position, left, words.names(NOT_COLUMN_ID))
        if precedence == _AT:
            return self._at_time_zone(left)
        names = self.operator()
        if not restricted and words.at_any("any", "some", "all"):
            return self._any_all(names, left, position)
        return syntax.Operation(position, names, left, self.expression(precedence, restricted=restricted))

    def operator(self) -> tuple[str, ...]:
        """``qual_all_Op``: an operator, or ``OPERATOR (schema.op)``."""
        words = self.words
        if not words.accept("operator"):
            return (words.take(Kind.OPERATOR, Kind.SYMBOL).value,)
        words.expect("(")
        names = []
        while words.at_name(NOT_COLUMN_ID):
            names.append(words.name(NOT_COLUMN_ID))
            words.expect(".")
        lexeme = words.take(Kind.OPERATOR, Kind.SYMBOL)
        if lexeme.kind is Kind.SYMBOL and (lexeme.value not in _SYMBOLS or lexeme.value == "::"):
            words.place -= 1
            raise words.error()
        words.expect(")")
        return (*names, lexeme.value)

    def _any_all(self, names: tuple[str, ...], left: syntax.Node, position: int) -> syntax.Node:
        words = self.words
        use_or = words.accept_any("any", "some", "all") != "all"
        words.expect("(")
        if self._at_query():
            words.skip_parentheses()
            return syntax.NotSimple(position, "SubLink", (left,))
        right = self.expression()
        words.expect(")")
        return syntax.AnyAll(position, names, left, right, use_or)

    def _is(self, left: syntax.Node, *, restricted: bool) -> syntax.Node:
        words, position = self.words, self.words.position
        if not restricted and words.accept("isnull"):
            return syntax.NullTest(position, left, is_null=True)
        if not restricted and words.accept("notnull"):
            return syntax.NullTest(position, left, is_null=False)
        words.expect("is")
        negated = words.accept("not")
        if words.accept("distinct", "from"):
            return syntax.DistinctFrom(position, left, self.expression(_IS, restricted=restricted), negated)
        if words.accept("document"):
            return syntax.NotSimple(position, "IS DOCUMENT", (left,))
        if restricted:
            raise words.error()
        if words.accept("null"):
            return syntax.NullTest(position, left, is_null=not negated)
        if (value := words.accept_any("true", "false", "unknown")) is not None:
            return syntax.BooleanTest(position, left, None if value == "unknown" else value == "true", negated)
        if words.major >= 16 and words.accept("json"):
            return self._is_json(left, position)
        form = words.accept_any("nfc", "nfd", "nfkc", "nfkd")
        words.expect("normalized")
        arguments = (left,) if form is None else (left, syntax.Constant(position, "string", form.upper()))
        test = syntax.FunctionCall(position, ("pg_catalog", "is_normalized"), arguments, special=True)
        return syntax.BooleanExpression(position, "not", (test,)) if negated else test

    def _is_json(self, left: syntax.Node, position: int) -> syntax.Node:
        words = self.words
        words.accept_any("value", "array", "object", "scalar")
        if words.accept("with", "unique") or words.accept("without", "unique"):
            words.accept("keys")
        return syntax.NotSimple(position, "JsonIsPredicate", (left,))

    def _membership(self, left: syntax.Node) -> syntax.Node:
        """``[NOT] BETWEEN``, ``IN``, ``LIKE``, ``ILIKE``, ``SIMILAR TO``."""
        words, position = self.words, self.words.position
        negated = words.accept("not")
        word = words.take(Kind.WORD).value
        if word == "between":
            symmetric = words.accept("symmetric")
            if not symmetric:
                words.accept("asymmetric")
            low = self.expression(restricted=True)
            words.expect("and")
            return syntax.Between(position, left, low, self.expression(_BETWEEN), negated, symmetric)
        if word == "in":
            words.expect("(")
            if self._at_query():
                words.skip_parentheses()
                return syntax.NotSimple(position, "SubLink", (left,))
            values = self.expressions()
            words.expect(")")
            return syntax.InList(position, left, values, negated)
        if word == "similar":
            words.expect("to")
        operator = ("!" if negated else "") + _PATTERNS[word]
        if word != "similar" and words.at_any("any", "some", "all"):
            return self._any_all((operator,), left, position)
        right = self.expression(_BETWEEN)
        if words.accept("escape"):
            function = "similar_to_escape" if word == "similar" else "like_escape"
            arguments = (right, self.expression(_BETWEEN))
            right = syntax.FunctionCall(position, ("pg_catalog", function), arguments)
        elif word == "similar":
            right = syntax.FunctionCall(position, ("pg_catalog", "similar_to_escape"), (right,))
        return syntax.Operation(position, (operator,), left, right)

    def _at_time_zone(self, left: syntax.Node) -> syntax.Node:
        words, position = self.words, self.words.position
        words.expect("at")
        if words.accept("local"):
            return syntax.FunctionCall(position, ("pg_catalog", "timezone"), (left,), special=True)
        words.expect("time", "zone")
        zone = self.expression(_AT)
        return syntax.FunctionCall(position, ("pg_catalog", "timezone"), (zone, left), special=True)

    # Operands ---------------------------------------------------------------------------------------

    def _operand(self, *, restricted: bool) -> syntax.Node:
        words, position = self.words, self.words.position
        if not restricted and words.accept("not"):
            return syntax.BooleanExpression(position, "not", (self.expression(_NOT),))
        if words.accept("+"):
            return syntax.Operation(position, ("+",), None, self.expression(_SIGN, restricted=restricted))
        if words.accept("-"):
            return _negative(self.expression(_SIGN, restricted=restricted), position)
        if words.peek().kind is Kind.OPERATOR or words.at("operator", "("):
            names = self.operator()
            return syntax.Operation(position, names, None, self.expression(_OP, restricted=restricted))
        node = self._primary()
        if isinstance(node, syntax.RowLiteral) and not restricted and words.at("overlaps"):
            return self._overlaps(node, position)
        return node

    def _overlaps(self, left: syntax.RowLiteral, position: int) -> syntax.Node:
        words = self.words
        words.expect("overlaps")
        right = self._primary()
        if not isinstance(right, syntax.RowLiteral):
            raise words.error()
        special_forms.check_overlaps(self, left, right)
        return syntax.FunctionCall(position, ("pg_catalog", "overlaps"), (*left.fields, *right.fields), special=True)

    def _primary(self) -> syntax.Node:
        """``c_expr``."""
        words, lexeme = self.words, self.words.peek()
        match lexeme.kind:
            case Kind.INTEGER:
                return syntax.Constant(lexeme.start, "integer", words.take(Kind.INTEGER).value)
            case Kind.FLOAT:
                return syntax.Constant(lexeme.start, "float", words.take(Kind.FLOAT).value)
            case Kind.STRING:
                return syntax.Constant(lexeme.start, "string", words.take(Kind.STRING).value)
            case Kind.BITS:
                return syntax.Constant(lexeme.start, "bits", words.take(Kind.BITS).value)
            case Kind.PARAMETER:
                return self._indirection(syntax.ParamRef(lexeme.start, words.take(Kind.PARAMETER).value))
            case Kind.SYMBOL if words.accept("("):
                return self._parenthesised(lexeme.start)
            case Kind.IDENTIFIER:
                return self._named()
            case Kind.WORD:
                return self._word()
        raise words.error()

    def _parenthesised(self, position: int) -> syntax.Node:
        words = self.words
        if self._at_query():
            words.skip_parentheses()
            return self._indirection(syntax.NotSimple(position, "SubLink"))
        node = self.expression()
        if words.accept(","):
            fields = (node, *self.expressions())
            words.expect(")")
            return syntax.RowLiteral(position, fields)
        if isinstance(node, syntax.NotSimple) and words.at_any(*_SET_WORDS):
            words.skip_parentheses()
        else:
            words.expect(")")
        return self._indirection(node)

    def _at_query(self) -> bool:
        return self.words.at_any(*_QUERY_WORDS)

    def _word(self) -> syntax.Node:
        words, position = self.words, self.words.position
        word = words.peek().value
        if word in ("true", "false", "null"):
            words.take(Kind.WORD)
            if word == "null":
                return syntax.Constant(position, "null", "")
            return syntax.Constant(position, "boolean", word)
        if (form := special_forms.read(self, word)) is not None:
            return form
        if word in TYPE_WORDS and (literal := self._typed_literal()) is not None:
            return literal
        return self._named()

    def _typed_literal(self) -> syntax.Node | None:
        """``date '…'`` of a type of the grammar's own; None if these words are something else."""
        words, position, place = self.words, self.words.position, self.words.place
        if (words.at("double") and not words.at("double", "precision")) or (
            words.at("national") and words.peek(1).value not in ("character", "char")
        ):
            return None
        name = read_literal_type(words, self.expression)
        if words.peek().kind is not Kind.STRING:
            if words.place > place + 1:
                raise words.error()
            words.place = place
            return None
        constant = syntax.Constant(words.position, "string", words.take(Kind.STRING).value)
        if name.names[-1] == "interval" and not name.modifiers:
            name = replace(name, modifiers=interval_fields(words))
        return syntax.TypeCast(position, constant, name)

    def _named(self) -> syntax.Node:
        """A column, a function's call, or a string constant with the name of its type."""
        words, position = self.words, self.words.position
        bare = words.peek().value if words.peek().kind is Kind.WORD else None
        if bare in RESERVED:
            raise words.error()
        first = words.label()
        parts = self._indirection_parts()
        names = [first, *(part for part in parts if isinstance(part, str))]
        callable_name = len(names) == len(parts) + 1 and not (
            (bare in column_names(words.major) and not parts) or (bare in TYPE_OR_FUNCTION_NAMES and parts)
        )
        if callable_name and words.at("("):
            call = special_forms.read_call(self, tuple(names), position)
            return self._literal_of(call, position)
        if callable_name and words.peek().kind is Kind.STRING:
            constant = syntax.Constant(words.position, "string", words.take(Kind.STRING).value)
            return syntax.TypeCast(position, constant, syntax.TypeName(position, tuple(names)))
        if bare in TYPE_OR_FUNCTION_NAMES:
            raise words.error()
        split = next((place for place, part in enumerate(parts) if isinstance(part, tuple)), len(parts))
        columns = tuple(part for part in parts[:split] if not isinstance(part, tuple))
        column = syntax.ColumnRef(position, (first, *columns))
        return column if split == len(parts) else syntax.Indirection(position, column, tuple(parts[split:]))

    def _literal_of(self, call: syntax.FunctionCall, position: int) -> syntax.Node:
        """``func_name ( func_arg_list ) Sconst``: the arguments are modifiers of a type."""
        words = self.words
        if words.peek().kind is not Kind.STRING or call.star or call.decorated or call.over or call.variadic:
            return call
        constant = syntax.Constant(words.position, "string", words.take(Kind.STRING).value)
        return syntax.TypeCast(position, constant, syntax.TypeName(position, call.names, call.arguments))

    def _indirection(self, node: syntax.Node) -> syntax.Node:
        parts = self._indirection_parts()
        return syntax.Indirection(node.position, node, tuple(parts)) if parts else node

    def _indirection_parts(self) -> list[str | tuple[syntax.Node | None, ...] | None]:
        words = self.words
        parts: list[str | tuple[syntax.Node | None, ...] | None] = []
        while True:
            if words.accept("."):
                parts.append(None if words.accept("*") else words.label())
            elif words.accept("["):
                parts.append(self._subscript())
            else:
                return parts

    def _subscript(self) -> tuple[syntax.Node | None, ...]:
        words = self.words
        low = None if words.at(":") else self.expression()
        if low is not None and words.accept("]"):
            return (low,)
        words.expect(":")
        high = None if words.at("]") else self.expression()
        words.expect("]")
        return (low, high)


def _combined(kind: str, left: syntax.Node, right: syntax.Node, position: int) -> syntax.Node:
    """``makeAndExpr``, ``makeOrExpr``: a chain is one node, whatever parentheses there are on its left."""
    which = "or" if kind == "or" else "and"
    if isinstance(left, syntax.BooleanExpression) and left.kind == which:
        return syntax.BooleanExpression(left.position, left.kind, (*left.arguments, right))
    return syntax.BooleanExpression(position, which, (left, right))  # type: ignore[arg-type]


def _negative(node: syntax.Node, position: int) -> syntax.Node:
    """``doNegate``: the sign of a number belongs to it."""
    if isinstance(node, syntax.Constant) and node.kind in ("integer", "float"):
        value = node.value.removeprefix("-") if node.value.startswith("-") else "-" + node.value
        return replace(node, position=position, value=value)
    return syntax.Operation(position, ("-",), None, node)
