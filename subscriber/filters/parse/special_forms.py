"""What ``gram.y`` writes in words of its own: CASE, CAST, EXTRACT, TRIM, COALESCE, function calls and the like (``func_expr``, ``case_expr``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from subscriber.errors import SQLSyntaxError
from subscriber.filters.parse import syntax
from subscriber.filters.parse.filter_lexer import Kind
from subscriber.filters.parse.token_reader import NOT_COLUMN_ID
from subscriber.filters.parse.type_names import read_type
from subscriber.sql.lexer import syntax_error

if TYPE_CHECKING:
    from subscriber.filters.parse.parser import Parser

_SESSION_VALUES: Final = frozenset(
    {
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "current_role",
        "current_user",
        "session_user",
        "user",
        "current_catalog",
        "current_schema",
        "system_user",
    }
)
_WITH_PRECISION: Final = frozenset({"current_time", "current_timestamp", "localtime", "localtimestamp"})
_JSON: Final = {
    "json": (17, "JsonConstructorExpr"),
    "json_array": (16, "JsonConstructorExpr"),
    "json_object": (16, "JsonConstructorExpr"),
    "json_scalar": (17, "JsonConstructorExpr"),
    "json_serialize": (17, "JsonConstructorExpr"),
    "json_exists": (17, "JsonExpr"),
    "json_query": (17, "JsonExpr"),
    "json_value": (17, "JsonExpr"),
}
"""Words of SQL/JSON, the version that brought them, and what they make."""
_XML: Final = frozenset(
    {"xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlparse", "xmlpi", "xmlroot", "xmlserialize"}
)
_TRIMS: Final = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}


def read(parser: Parser, word: str) -> syntax.Node | None:
    """The construct that begins with this word, which comes next; None if it is one of the general kind."""
    words, position = parser.words, parser.words.position
    if word == "case":
        return _case(parser, position)
    if word == "array":
        return _array(parser, position)
    if word in _SESSION_VALUES and not (word == "current_schema" and words.peek(1).value == "("):
        return _session_value(parser, word, position)
    if word == "collation" and words.accept("collation", "for"):
        (argument,) = _arguments(parser, 1)
        return syntax.FunctionCall(position, ("pg_catalog", "pg_collation_for"), (argument,), special=True)
    if words.peek(1).kind is not Kind.SYMBOL or words.peek(1).value != "(":
        return None
    if words.major >= _JSON.get(word, (0, ""))[0] and (word in _JSON or word in _XML or word == "exists"):
        if word == "json_object" and (call := _legacy_json_object(parser, position)) is not None:
            return call
        words.take(Kind.WORD)
        words.expect("(")
        words.skip_parentheses()
        what = _JSON[word][1] if word in _JSON else "SubLink" if word == "exists" else word.upper()
        return syntax.NotSimple(position, what)
    reader = _FORMS.get(word)
    if reader is None:
        return None
    words.take(Kind.WORD)
    words.expect("(")
    node = reader(parser, position)
    words.expect(")")
    return node


def read_call(parser: Parser, names: tuple[str, ...], position: int) -> syntax.FunctionCall:
    """``func_application`` and what may follow it."""
    words = parser.words
    words.expect("(")
    arguments: list[syntax.Node] = []
    argument_names: list[str | None] = []
    star = variadic = False
    decorated: str | None = None
    if words.accept("*"):
        star = True
    elif not words.at(")"):
        if words.accept("distinct"):
            decorated = "DISTINCT"
        else:
            words.accept("all")
        more = True
        while more:
            variadic = words.accept("variadic")
            argument_names.append(_argument_name(parser))
            arguments.append(parser.expression())
            more = words.accept(",") and not variadic
        if words.accept("order", "by"):
            decorated = decorated or "ORDER BY"
            _sort_list(parser)
    words.expect(")")
    if words.accept("within", "group"):
        decorated = decorated or "WITHIN GROUP"
        words.expect("(", "order", "by")
        ordered = _sort_list(parser)
        arguments += ordered
        argument_names += [None] * len(ordered)
        words.expect(")")
    if words.at("filter", "("):
        decorated = decorated or "FILTER"
        words.expect("filter", "(", "where")
        parser.expression()
        words.expect(")")
    over = words.accept("over")
    if over and words.accept("("):
        words.skip_parentheses()
    elif over:
        words.name(NOT_COLUMN_ID)
    return syntax.FunctionCall(
        position, names, tuple(arguments), tuple(argument_names), star, variadic, decorated, over
    )


def _legacy_json_object(parser: Parser, position: int) -> syntax.Node | None:
    """``json_object (a, b)``, the function that is older than the words; None where it is not called so."""
    words = parser.words
    place = words.place
    words.take(Kind.WORD)
    try:
        return read_call(parser, ("json_object",), position)
    except SQLSyntaxError:
        words.place = place
        return None


def check_overlaps(parser: Parser, left: syntax.RowLiteral, right: syntax.RowLiteral) -> None:
    """Both sides of OVERLAPS have two."""
    for side, row in (("left", left), ("right", right)):
        if len(row.fields) != 2:
            message = f"wrong number of parameters on {side} side of OVERLAPS expression"
            raise syntax_error(parser.words.text, row.position, message)


def _argument_name(parser: Parser) -> str | None:
    words = parser.words
    following = words.peek(1)
    if following.kind is Kind.SYMBOL and following.value in (":=", "=>"):
        name = words.label()
        words.place += 1
        return name
    return None


def _sort_list(parser: Parser) -> list[syntax.Node]:
    words = parser.words
    found = []
    more = True
    while more:
        found.append(parser.expression())
        if words.accept("using"):
            parser.operator()
        else:
            words.accept_any("asc", "desc")
        if words.accept("nulls") and words.accept_any("first", "last") is None:
            raise words.error()
        more = words.accept(",")
    return found


def _arguments(parser: Parser, count: int) -> tuple[syntax.Node, ...]:
    words = parser.words
    words.expect("(")
    found = parser.expressions()
    if len(found) != count:
        raise words.error()
    words.expect(")")
    return found


def _session_value(parser: Parser, word: str, position: int) -> syntax.Node:
    words = parser.words
    words.take(Kind.WORD)
    if word in _WITH_PRECISION and words.accept("("):
        words.integer()
        words.expect(")")
    return syntax.SessionValue(position, word)


def _case(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    words.expect("case")
    operand = None if words.at("when") else parser.expression()
    whens = []
    words.expect("when")
    while True:
        condition = parser.expression()
        words.expect("then")
        whens.append((condition, parser.expression()))
        if not words.accept("when"):
            break
    default = parser.expression() if words.accept("else") else None
    words.expect("end")
    return syntax.Case(position, operand, tuple(whens), default)


def _array(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    words.expect("array")
    if words.accept("("):
        words.skip_parentheses()
        return syntax.NotSimple(position, "SubLink")
    words.expect("[")
    return _array_elements(parser, position)


def _array_elements(parser: Parser, position: int) -> syntax.Node:
    """``array_expr`` behind its opening bracket: inner arrays may leave the word ARRAY out."""
    words = parser.words
    elements: list[syntax.Node] = []
    if not words.at("]"):
        more, nested = True, words.at("[")
        while more:
            place = words.position
            if nested:
                words.expect("[")
                elements.append(_array_elements(parser, place))
            else:
                elements.append(parser.expression())
            more = words.accept(",")
    words.expect("]")
    return syntax.ArrayLiteral(position, tuple(elements))


def _row(parser: Parser, position: int) -> syntax.Node:
    return syntax.RowLiteral(position, () if parser.words.at(")") else parser.expressions())


def _grouping(parser: Parser, position: int) -> syntax.Node:
    return syntax.NotSimple(position, "GroupingFunc", parser.expressions())


def _cast(parser: Parser, position: int) -> syntax.Node:
    argument = parser.expression()
    parser.words.expect("as")
    return syntax.TypeCast(position, argument, read_type(parser.words, parser.expression))


def _treat(parser: Parser, position: int) -> syntax.Node:
    argument = parser.expression()
    parser.words.expect("as")
    name = read_type(parser.words, parser.expression)
    return syntax.FunctionCall(position, ("pg_catalog", name.names[-1]), (argument,))


def _coalesce(parser: Parser, position: int) -> syntax.Node:
    return syntax.Coalesce(position, parser.expressions())


def _greatest(parser: Parser, position: int) -> syntax.Node:
    return syntax.MinMax(position, True, parser.expressions())


def _least(parser: Parser, position: int) -> syntax.Node:
    return syntax.MinMax(position, False, parser.expressions())


def _nullif(parser: Parser, position: int) -> syntax.Node:
    left = parser.expression()
    parser.words.expect(",")
    return syntax.NullIf(position, left, parser.expression())


def _extract(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    place = words.position
    field = words.take(Kind.WORD, Kind.IDENTIFIER, Kind.STRING).value
    words.expect("from")
    arguments = (syntax.Constant(place, "string", field), parser.expression())
    return syntax.FunctionCall(position, ("pg_catalog", "extract"), arguments, special=True)


def _normalize(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    arguments: tuple[syntax.Node, ...] = (parser.expression(),)
    if words.accept(","):
        place = words.position
        form = words.accept_any("nfc", "nfd", "nfkc", "nfkd")
        if form is None:
            raise words.error()
        arguments = (*arguments, syntax.Constant(place, "string", form.upper()))
    return syntax.FunctionCall(position, ("pg_catalog", "normalize"), arguments, special=True)


def _position(parser: Parser, position: int) -> syntax.Node:
    needle = parser.expression(restricted=True)
    parser.words.expect("in")
    haystack = parser.expression(restricted=True)
    return syntax.FunctionCall(position, ("pg_catalog", "position"), (haystack, needle), special=True)


def _overlay(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    place = words.place
    first = None if words.at(")") else parser.expression()
    if first is None or not words.accept("placing"):
        return _plain(parser, "overlay", position, place)
    arguments = [first, parser.expression()]
    words.expect("from")
    arguments.append(parser.expression())
    if words.accept("for"):
        arguments.append(parser.expression())
    return syntax.FunctionCall(position, ("pg_catalog", "overlay"), tuple(arguments), special=True)


def _plain(parser: Parser, name: str, position: int, place: int) -> syntax.Node:
    """A call of the usual form, from behind its opening parenthesis; the closing one is left."""
    words = parser.words
    words.place = place - 1
    call = read_call(parser, (name,), position)
    words.place -= 1
    return call


def _substring(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    place = words.place
    first = None if words.at(")") else parser.expression()
    name = ("pg_catalog", "substring")
    if first is not None and words.accept("similar"):
        pattern = parser.expression()
        words.expect("escape")
        return syntax.FunctionCall(position, name, (first, pattern, parser.expression()), special=True)
    start = length = None
    if first is not None and words.accept("from"):
        start = parser.expression()
        length = parser.expression() if words.accept("for") else None
    elif first is not None and words.accept("for"):
        length = parser.expression()
        start = parser.expression() if words.accept("from") else None
    else:
        return _plain(parser, "substring", position, place)
    if start is None and length is not None:
        # The length alone is made an integer at once, since there is no function without a start.
        integer = syntax.TypeName(position, ("pg_catalog", "int4"))
        arguments: tuple[syntax.Node, ...] = (
            first,
            syntax.Constant(position, "integer", "1"),
            syntax.TypeCast(length.position, length, integer),
        )
        return syntax.FunctionCall(position, name, arguments, special=True)
    found = [part for part in (first, start, length) if part is not None]
    return syntax.FunctionCall(position, name, tuple(found), special=True)


def _trim(parser: Parser, position: int) -> syntax.Node:
    words = parser.words
    name = _TRIMS[words.accept_any(*_TRIMS) or "both"]
    if words.accept("from"):
        arguments = parser.expressions()
    else:
        arguments = parser.expressions()
        if len(arguments) == 1 and words.accept("from"):
            arguments = (*parser.expressions(), arguments[0])
    return syntax.FunctionCall(position, ("pg_catalog", name), arguments, special=True)


_FORMS: Final[dict[str, Callable[[Parser, int], syntax.Node]]] = {
    "row": _row,
    "grouping": _grouping,
    "cast": _cast,
    "treat": _treat,
    "coalesce": _coalesce,
    "greatest": _greatest,
    "least": _least,
    "nullif": _nullif,
    "extract": _extract,
    "normalize": _normalize,
    "position": _position,
    "overlay": _overlay,
    "substring": _substring,
    "trim": _trim,
}
