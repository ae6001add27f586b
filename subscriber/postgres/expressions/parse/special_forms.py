"""The expressions that have their own grammar rules in ``gram.y`` (``func_expr``, ``case_expr``):
CASE, CAST, EXTRACT, TRIM, COALESCE, function calls and others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.type_names import read_type
from subscriber.postgres.sql.cursor import Cursor
from subscriber.postgres.sql.keywords import NOT_COLUMN_ID
from subscriber.postgres.sql.lexer import Kind, syntax_error


class Expressions(Protocol):
    """What this module needs of the parser to read the expressions within these forms."""

    @property
    def cursor(self) -> Cursor: ...

    def expression(self, *, restricted: bool = False) -> syntax.Node:
        """Read ``a_expr``, or ``b_expr`` if restricted."""
        ...

    def expressions(self) -> tuple[syntax.Node, ...]:
        """Read one expression, or several that are separated by commas."""
        ...

    def operator(self) -> tuple[str, ...]: ...


_SESSION_VALUES: Final = frozenset({
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_role",
    "current_user", "session_user", "user", "current_catalog", "current_schema", "system_user",
})  # fmt: skip
_WITH_PRECISION: Final = frozenset({"current_time", "current_timestamp", "localtime", "localtimestamp"})
_JSON: Final = {
    **dict.fromkeys(("json_array", "json_object"), (16, "JsonConstructorExpr")),
    **dict.fromkeys(("json", "json_scalar", "json_serialize"), (17, "JsonConstructorExpr")),
    **dict.fromkeys(("json_exists", "json_query", "json_value"), (17, "JsonExpr")),
}
"""The words of SQL/JSON, with the major version that introduced them and the name of their node."""
_XML: Final = frozenset(
    {"xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlparse", "xmlpi", "xmlroot", "xmlserialize"}
)
_TRIMS: Final = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}


def read(parser: Expressions, word: str) -> syntax.Node | None:
    """Read the construct that begins with this word, the next token; None if none does."""
    cursor, position = parser.cursor, parser.cursor.position
    if word == "case":
        return _case(parser, position)
    if word == "array":
        return _array(parser, position)
    if word in _SESSION_VALUES and not (word == "current_schema" and cursor.peek(1).value == "("):
        return _session_value(parser, word, position)
    if word == "collation" and cursor.accept("collation", "for"):
        (argument,) = _arguments(parser, 1)
        return syntax.FunctionCall(position, ("pg_catalog", "pg_collation_for"), (argument,), special=True)
    if cursor.peek(1).kind is not Kind.SYMBOL or cursor.peek(1).value != "(":
        return None
    if cursor.major >= _JSON.get(word, (0, ""))[0] and (word in _JSON or word in _XML or word == "exists"):
        if word == "json_object" and (call := _legacy_json_object(parser, position)) is not None:
            return call
        cursor.take(Kind.WORD)
        cursor.expect("(")
        cursor.skip_parentheses()
        what = _JSON[word][1] if word in _JSON else "SubLink" if word == "exists" else word.upper()
        return syntax.NotSimple(position, what)
    reader = _FORMS.get(word)
    if reader is None:
        return None
    cursor.take(Kind.WORD)
    cursor.expect("(")
    node = reader(parser, position)
    cursor.expect(")")
    return node


def read_call(parser: Expressions, names: tuple[str, ...], position: int) -> syntax.FunctionCall:
    """``func_application``, and the clauses that may follow."""
    cursor = parser.cursor
    cursor.expect("(")
    arguments: list[syntax.Node] = []
    argument_names: list[str | None] = []
    star = variadic = False
    decorated: str | None = None
    if cursor.accept("*"):
        star = True
    elif not cursor.at(")"):
        if cursor.accept("distinct"):
            decorated = "DISTINCT"
        else:
            cursor.accept("all")
        more = True
        while more:
            variadic = cursor.accept("variadic")
            argument_names.append(_argument_name(parser))
            arguments.append(parser.expression())
            more = cursor.accept(",") and not variadic
        if cursor.accept("order", "by"):
            decorated = decorated or "ORDER BY"
            _sort_list(parser)
    cursor.expect(")")
    if cursor.accept("within", "group"):
        decorated = decorated or "WITHIN GROUP"
        cursor.expect("(", "order", "by")
        ordered = _sort_list(parser)
        arguments += ordered
        argument_names += [None] * len(ordered)
        cursor.expect(")")
    if cursor.at("filter", "("):
        decorated = decorated or "FILTER"
        cursor.expect("filter", "(", "where")
        parser.expression()
        cursor.expect(")")
    over = cursor.accept("over")
    if over and cursor.accept("("):
        cursor.skip_parentheses()
    elif over:
        cursor.name(NOT_COLUMN_ID)
    return syntax.FunctionCall(
        position, names, tuple(arguments), tuple(argument_names), star, variadic, decorated, over
    )


def _legacy_json_object(parser: Expressions, position: int) -> syntax.Node | None:
    """``json_object (a, b)``, older than the SQL/JSON constructor; None for another call."""
    cursor = parser.cursor
    place = cursor.place
    cursor.take(Kind.WORD)
    try:
        return read_call(parser, ("json_object",), position)
    except SQLSyntaxError:
        cursor.place = place
        return None


def check_overlaps(parser: Expressions, left: syntax.RowLiteral, right: syntax.RowLiteral) -> None:
    for side, row in (("left", left), ("right", right)):
        if len(row.fields) != 2:
            message = f"wrong number of parameters on {side} side of OVERLAPS expression"
            raise syntax_error(parser.cursor.sql, row.position, message)


def _argument_name(parser: Expressions) -> str | None:
    cursor = parser.cursor
    following = cursor.peek(1)
    if following.kind is Kind.SYMBOL and following.value in (":=", "=>"):
        name = cursor.name()
        cursor.place += 1
        return name
    return None


def _sort_list(parser: Expressions) -> list[syntax.Node]:
    cursor = parser.cursor
    found = []
    more = True
    while more:
        found.append(parser.expression())
        if cursor.accept("using"):
            parser.operator()
        else:
            cursor.accept_any("asc", "desc")
        if cursor.accept("nulls") and cursor.accept_any("first", "last") is None:
            raise cursor.error()
        more = cursor.accept(",")
    return found


def _arguments(parser: Expressions, count: int) -> tuple[syntax.Node, ...]:
    cursor = parser.cursor
    cursor.expect("(")
    found = parser.expressions()
    if len(found) != count:
        raise cursor.error()
    cursor.expect(")")
    return found


def _session_value(parser: Expressions, word: str, position: int) -> syntax.Node:
    cursor = parser.cursor
    cursor.take(Kind.WORD)
    if word in _WITH_PRECISION and cursor.accept("("):
        cursor.integer()
        cursor.expect(")")
    return syntax.SessionValue(position, word)


def _case(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    cursor.expect("case")
    operand = None if cursor.at("when") else parser.expression()
    whens = []
    cursor.expect("when")
    while True:
        condition = parser.expression()
        cursor.expect("then")
        whens.append((condition, parser.expression()))
        if not cursor.accept("when"):
            break
    default = parser.expression() if cursor.accept("else") else None
    cursor.expect("end")
    return syntax.Case(position, operand, tuple(whens), default)


def _array(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    cursor.expect("array")
    if cursor.accept("("):
        cursor.skip_parentheses()
        return syntax.NotSimple(position, "SubLink")
    cursor.expect("[")
    return _array_elements(parser, position)


def _array_elements(parser: Expressions, position: int) -> syntax.Node:
    """``array_expr`` behind its opening bracket. Inner arrays may omit the word ARRAY."""
    cursor = parser.cursor
    elements: list[syntax.Node] = []
    if not cursor.at("]"):
        more, nested = True, cursor.at("[")
        while more:
            place = cursor.position
            if nested:
                cursor.expect("[")
                elements.append(_array_elements(parser, place))
            else:
                elements.append(parser.expression())
            more = cursor.accept(",")
    cursor.expect("]")
    return syntax.ArrayLiteral(position, tuple(elements))


def _cast(parser: Expressions, position: int) -> syntax.Node:
    argument = parser.expression()
    parser.cursor.expect("as")
    return syntax.TypeCast(position, argument, read_type(parser.cursor, parser.expression))


def _treat(parser: Expressions, position: int) -> syntax.Node:
    argument = parser.expression()
    parser.cursor.expect("as")
    name = read_type(parser.cursor, parser.expression)
    return syntax.FunctionCall(position, ("pg_catalog", name.names[-1]), (argument,))


def _nullif(parser: Expressions, position: int) -> syntax.Node:
    left = parser.expression()
    parser.cursor.expect(",")
    return syntax.NullIf(position, left, parser.expression())


def _extract(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    place = cursor.position
    field = cursor.take(Kind.STRING).value if cursor.peek().kind is Kind.STRING else cursor.name()
    cursor.expect("from")
    arguments = (syntax.AConst(place, "string", field), parser.expression())
    return syntax.FunctionCall(position, ("pg_catalog", "extract"), arguments, special=True)


def _normalize(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    arguments: tuple[syntax.Node, ...] = (parser.expression(),)
    if cursor.accept(","):
        place = cursor.position
        form = cursor.accept_any("nfc", "nfd", "nfkc", "nfkd")
        if form is None:
            raise cursor.error()
        arguments = (*arguments, syntax.AConst(place, "string", form.upper()))
    return syntax.FunctionCall(position, ("pg_catalog", "normalize"), arguments, special=True)


def _position(parser: Expressions, position: int) -> syntax.Node:
    needle = parser.expression(restricted=True)
    parser.cursor.expect("in")
    haystack = parser.expression(restricted=True)
    return syntax.FunctionCall(position, ("pg_catalog", "position"), (haystack, needle), special=True)


def _overlay(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    place = cursor.place
    first = None if cursor.at(")") else parser.expression()
    if first is None or not cursor.accept("placing"):
        return _plain(parser, "overlay", position, place)
    arguments = [first, parser.expression()]
    cursor.expect("from")
    arguments.append(parser.expression())
    if cursor.accept("for"):
        arguments.append(parser.expression())
    return syntax.FunctionCall(position, ("pg_catalog", "overlay"), tuple(arguments), special=True)


def _plain(parser: Expressions, name: str, position: int, place: int) -> syntax.Node:
    """A call in the usual notation, up to its closing parenthesis, which stays unread."""
    cursor = parser.cursor
    cursor.place = place - 1
    call = read_call(parser, (name,), position)
    cursor.place -= 1
    return call


def _substring(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    place = cursor.place
    first = None if cursor.at(")") else parser.expression()
    name = ("pg_catalog", "substring")
    if first is not None and cursor.accept("similar"):
        pattern = parser.expression()
        cursor.expect("escape")
        return syntax.FunctionCall(position, name, (first, pattern, parser.expression()), special=True)
    start = length = None
    if first is not None and cursor.accept("from"):
        start = parser.expression()
        length = parser.expression() if cursor.accept("for") else None
    elif first is not None and cursor.accept("for"):
        length = parser.expression()
        start = parser.expression() if cursor.accept("from") else None
    else:
        return _plain(parser, "substring", position, place)
    if start is None and length is not None:
        # A length without a start is cast to integer here, since no function takes only a length.
        integer = syntax.TypeName(position, ("pg_catalog", "int4"))
        arguments: tuple[syntax.Node, ...] = (
            first,
            syntax.AConst(position, "integer", "1"),
            syntax.TypeCast(length.position, length, integer),
        )
        return syntax.FunctionCall(position, name, arguments, special=True)
    found = [part for part in (first, start, length) if part is not None]
    return syntax.FunctionCall(position, name, tuple(found), special=True)


def _trim(parser: Expressions, position: int) -> syntax.Node:
    cursor = parser.cursor
    name = _TRIMS[cursor.accept_any(*_TRIMS) or "both"]
    if cursor.accept("from"):
        arguments = parser.expressions()
    else:
        arguments = parser.expressions()
        if len(arguments) == 1 and cursor.accept("from"):
            arguments = (*parser.expressions(), arguments[0])
    return syntax.FunctionCall(position, ("pg_catalog", name), arguments, special=True)


_FORMS: Final[dict[str, Callable[[Expressions, int], syntax.Node]]] = {
    "row": lambda parser, at: syntax.RowLiteral(at, () if parser.cursor.at(")") else parser.expressions()),
    "grouping": lambda parser, at: syntax.NotSimple(at, "GroupingFunc", parser.expressions()),
    "coalesce": lambda parser, at: syntax.Coalesce(at, parser.expressions()),
    "greatest": lambda parser, at: syntax.MinMax(at, True, parser.expressions()),
    "least": lambda parser, at: syntax.MinMax(at, False, parser.expressions()),
    "cast": _cast, "treat": _treat, "nullif": _nullif, "extract": _extract, "normalize": _normalize,
    "position": _position, "overlay": _overlay, "substring": _substring, "trim": _trim,
}  # fmt: skip
