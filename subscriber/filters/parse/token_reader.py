"""Reading the lexemes of an expression in order."""

from __future__ import annotations

from subscriber.digits import integer_of
from subscriber.errors import SQLSyntaxError
from subscriber.filters.parse.filter_lexer import Kind, Lexeme, lex_expression
from subscriber.sql.keywords import COLUMN_NAMES, RESERVED, TYPE_OR_FUNCTION_NAMES
from subscriber.sql.lexer import syntax_error


class Words:
    """The lexemes of an expression and how far they have been read.

    Attributes:
        text: the expression.
        major: PostgreSQL's version, on which the grammar depends.
        place: the number of the lexeme that comes next; may be set back to where it was.
    """

    def __init__(self, text: str, major: int) -> None:
        self.text = text
        self.major = major
        self._lexemes = lex_expression(text, major)
        self.place = 0

    def peek(self, ahead: int = 0) -> Lexeme:
        """The lexeme that comes next, or one behind it; the last one is that of the end."""
        return self._lexemes[min(self.place + ahead, len(self._lexemes) - 1)]

    @property
    def position(self) -> int:
        """Where the next lexeme begins in the text."""
        return self.peek().start

    def error(self) -> SQLSyntaxError:
        """What comes next has no place here; behind the end, that is the parenthesis around every filter. A string is not shown."""
        lexeme = self.peek()
        if lexeme.kind is Kind.END:
            return syntax_error(self.text, len(self.text), 'syntax error at or near ")"')
        near = "'…'" if lexeme.kind is Kind.STRING else self.text[lexeme.start : lexeme.end]
        return syntax_error(self.text, lexeme.start, f'syntax error at or near "{near}"')

    def take(self, *kinds: Kind) -> Lexeme:
        """Read a lexeme that must be of one of these kinds."""
        lexeme = self.peek()
        if lexeme.kind not in kinds:
            raise self.error()
        self.place += 1
        return lexeme

    def at(self, *words: str) -> bool:
        """Whether these words and symbols come next."""
        return all(
            self.peek(ahead).kind in (Kind.WORD, Kind.SYMBOL) and self.peek(ahead).value == word
            for ahead, word in enumerate(words)
        )

    def at_any(self, *words: str) -> bool:
        """Whether one of these comes next."""
        return any(self.at(word) for word in words)

    def accept(self, *words: str) -> bool:
        """Read these words and symbols if they come next."""
        found = self.at(*words)
        self.place += len(words) if found else 0
        return found

    def accept_any(self, *words: str) -> str | None:
        """Read one of these words if it comes next, and give it back."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Read words or symbols that must come next."""
        for word in words:
            if not self.accept(word):
                raise self.error()

    def skip_parentheses(self) -> None:
        """Read from an opening parenthesis, which has just been read, to behind its closing one."""
        depth = 1
        while depth:
            lexeme = self.peek()
            if lexeme.kind is Kind.END:
                raise self.error()
            if lexeme.kind is Kind.SYMBOL:
                depth += (lexeme.value == "(") - (lexeme.value == ")")
            self.place += 1

    # Numbers ----------------------------------------------------------------------------------------

    def integer(self) -> int:
        """Iconst: an integer of four bytes; a longer one is a number of another kind."""
        lexeme = self.peek()
        number = integer_of(lexeme.value) if lexeme.kind is Kind.INTEGER else None
        if number is None or number >= 2**31:
            raise self.error()
        self.place += 1
        return number

    # Names ------------------------------------------------------------------------------------------

    def at_name(self, excluded: frozenset[str]) -> bool:
        """Whether a quoted identifier comes next, or a word that is not among these."""
        lexeme = self.peek()
        return lexeme.kind is Kind.IDENTIFIER or (lexeme.kind is Kind.WORD and lexeme.value not in excluded)

    def name(self, excluded: frozenset[str]) -> str:
        """Read a name."""
        if not self.at_name(excluded):
            raise self.error()
        return self.take(Kind.WORD, Kind.IDENTIFIER).value

    def label(self) -> str:
        """ColLabel, attr_name: any word."""
        return self.name(frozenset())

    def names(self, excluded: frozenset[str]) -> tuple[str, ...]:
        """any_name: names with dots between them."""
        found = [self.name(excluded)]
        while self.accept("."):
            found.append(self.label())
        return tuple(found)


_SINCE_16 = frozenset({"json_array", "json_arrayagg", "json_object", "json_objectagg"})
_SINCE_17 = frozenset(
    {
        "json",
        "json_exists",
        "json_query",
        "json_scalar",
        "json_serialize",
        "json_table",
        "json_value",
        "merge_action",
    }
)


def column_names(major: int) -> frozenset[str]:
    """Words that are a column's name, but not a function's, in this version."""
    newer = (_SINCE_17 if major < 17 else frozenset()) | (_SINCE_16 if major < 16 else frozenset())
    return COLUMN_NAMES - newer


NOT_COLUMN_ID = RESERVED | TYPE_OR_FUNCTION_NAMES
"""What ColId excludes."""
NOT_TYPE_OR_FUNCTION = RESERVED | COLUMN_NAMES
"""What type_function_name excludes."""
