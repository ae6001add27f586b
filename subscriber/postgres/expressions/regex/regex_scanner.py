"""Splits regular expressions into tokens (``regc_lex.c``), with the options in front, escapes,
bracket expressions and bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from subscriber.base.digits import parse_int
from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.regex import automaton

MOST_REPETITIONS: Final = 255
_LARGEST_CODE: Final = 0x7FFFFFFE
_LAST_CHARACTER: Final = 0x10FFFF

_SPACES: Final = " \t\n\v\f\r"
_DIGITS: Final = "0123456789"
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CHARACTER_ESCAPES: Final = dict(zip("abBefnrtv", "\a\b\\\33\f\n\r\t\v", strict=True))
_CLASS_ESCAPES: Final = {"d": "digit", "s": "space", "w": "word"}
_ANCHOR_ESCAPES: Final[dict[str, automaton.Anchor]] = {
    "A": automaton.Anchor("begin"),
    "Z": automaton.Anchor("end"),
    "m": automaton.Anchor("word begin"),
    "M": automaton.Anchor("word end"),
    "y": automaton.Anchor("boundary"),
    "Y": automaton.Anchor("no boundary"),
}
_WORD_BRACKETS: Final[dict[str, automaton.Anchor]] = {
    "[[:<:]]": automaton.Anchor("word begin"),
    "[[:>:]]": automaton.Anchor("word end"),
}
_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LOOKS: Final = {"=": (True, False), "!": (True, True), "<=": (False, False), "<!": (False, True)}
"""The text behind ``(?``, with whether the constraint is a lookahead and whether it is negative."""

_CONTROL_NAMES: Final = "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC IS4 IS3 IS2 IS1"
_PRINTING_NAMES: Final = (
    "space exclamation-mark quotation-mark number-sign dollar-sign percent-sign ampersand apostrophe left-parenthesis "
    "right-parenthesis asterisk plus-sign comma hyphen period slash zero one two three four five six seven eight nine colon "
    "semicolon less-than-sign equals-sign greater-than-sign question-mark commercial-at"
)
_OTHER_NAMES: Final = {
    "\a": "alert", "\b": "backspace", "\t": "tab", "\n": "newline", "\v": "vertical-tab", "\f": "form-feed",
    "\r": "carriage-return", "\34": "FS", "\35": "GS", "\36": "RS", "\37": "US", "-": "hyphen-minus",
    ".": "full-stop", "/": "solidus", "[": "left-square-bracket", "\\": "backslash reverse-solidus",
    "]": "right-square-bracket", "^": "circumflex circumflex-accent", "_": "underscore low-line", "`": "grave-accent",
    "{": "left-brace left-curly-bracket", "|": "vertical-line", "}": "right-brace right-curly-bracket", "~": "tilde",
    "\177": "DEL",
}  # fmt: skip
_NAMES: Final[dict[str, int]] = {
    **{name: code for code, name in enumerate(_CONTROL_NAMES.split())},
    **{name: code for code, name in enumerate(_PRINTING_NAMES.split(), start=ord(" "))},
    **{name: ord(character) for character, names in _OTHER_NAMES.items() for name in names.split()},
}
"""The names of collating elements, such as ``[[.hyphen.]]``."""


def invalid(reason: str) -> RowFilterError:
    return RowFilterError(f"invalid regular expression: {reason}", sqlstate="2201B")


def bad_escape() -> RowFilterError:
    return invalid("invalid escape \\ sequence")


@dataclass(frozen=True, slots=True)
class Options:
    """The options: ``i``; ``p``: ``.`` and ``[^…]`` do not match a newline; ``w``: ``^`` and ``$``
    also match at the begin and end of lines (``n`` sets both); ``x``: white space and comments
    between tokens are ignored; ``q``: the pattern is a plain string.
    """

    ignore_case: bool = False
    newline_stops: bool = False
    newline_anchors: bool = False
    expanded: bool = False
    quoted: bool = False

    def changed_by(self, letter: str) -> Options | None:
        """The options, changed by an option letter; None if there is no such option."""
        if letter in {"b", "e"}:
            raise NotSupportedError(
                "POSIX's basic and extended regular expressions cannot be evaluated by the subscriber",
                hint="Write an advanced regular expression, without this option.",
            )
        changes = {
            "c": {"ignore_case": False},
            "i": {"ignore_case": True},
            "m": {"newline_stops": True, "newline_anchors": True},
            "n": {"newline_stops": True, "newline_anchors": True},
            "p": {"newline_stops": True, "newline_anchors": False},
            "q": {"quoted": True},
            "s": {"newline_stops": False, "newline_anchors": False},
            "t": {"expanded": False},
            "w": {"newline_stops": False, "newline_anchors": True},
            "x": {"expanded": True},
        }.get(letter)
        return None if changes is None else replace(self, **changes)


Kind = Literal["end", "characters", "anchor", "(", "look", ")", "|", "quantifier", "reference"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token, of which only the attributes of its kind have a meaning. ``most`` is None for any
    number of repetitions; ``prefers`` says longer or shorter, None for ``{m}``. ``ahead`` and
    ``negative`` belong to a lookaround constraint, ``number`` to a back reference.
    """

    kind: Kind
    characters: automaton.CharacterSet = ()
    anchor: automaton.Anchor | None = None
    captures: bool = False
    ahead: bool = False
    negative: bool = False
    least: int = 1
    most: int | None = 1
    prefers: bool | None = None
    number: int = 0


class Scanner:
    r"""Reads the tokens. ``knows_letters``: classes, word constraints or ignored case were read.
    The meaning of ``\12`` depends on ``captures``, the number so far, which the parser counts.
    """

    def __init__(self, pattern: str, options: Options) -> None:
        self.options = options
        self.knows_letters = False
        self.captures = 0
        self._pattern = pattern
        self._at = 0
        if not options.quoted:
            self._read_prefixes()

    # --- looking at characters

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        if found:
            self._at += len(text)
        return found

    def _next(self, at_end: Callable[[], RowFilterError]) -> str:
        if self._at >= len(self._pattern):
            raise at_end()
        self._at += 1
        return self._pattern[self._at - 1]

    def _is_digit(self) -> bool:
        return self._pattern[self._at : self._at + 1] in {*_DIGITS}

    def _skip_if_expanded(self) -> None:
        if not self.options.expanded:
            return
        while self._at < len(self._pattern):
            if self._pattern[self._at] in _SPACES:
                self._at += 1
            elif self._pattern[self._at] == "#":
                end = self._pattern.find("\n", self._at)
                self._at = len(self._pattern) if end < 0 else end
            else:
                return

    # --- options in front

    def _read_prefixes(self) -> None:
        if self._peek("***") and len(self._pattern) > 3:
            self._at = 4
            match self._pattern[3]:
                case "=":
                    self.options = Options(ignore_case=self.options.ignore_case, quoted=True)
                    return
                case "?":
                    raise invalid("invalid regexp (reg version 0.8)")
                case ":":
                    pass
                case _:
                    raise invalid("quantifier operand invalid")
        if self._peek("(?") and self._pattern[self._at + 2 : self._at + 3] in _LETTERS:
            self._at += 2
            self._read_embedded_options()

    def _read_embedded_options(self) -> None:
        options = self.options
        while not self._take(")"):
            letter = self._next(lambda: invalid("invalid embedded option"))
            changed = options.changed_by(letter)
            if changed is None:
                raise invalid("invalid embedded option")
            options = changed
        if options.quoted:
            options = Options(ignore_case=options.ignore_case, quoted=True)
        self.options = options

    # --- tokens

    def token(self) -> Token:
        if self.options.quoted:
            if self._at >= len(self._pattern):
                return Token("end")
            return self._character(ord(self._next(bad_escape)))
        self._skip_if_expanded()
        while self._take("(?#"):
            end = self._pattern.find(")", self._at)
            self._at = len(self._pattern) if end < 0 else end + 1
            self._skip_if_expanded()
        if self._at >= len(self._pattern):
            return Token("end")
        return self._token(self._next(bad_escape))

    def _token(self, character: str) -> Token:
        match character:
            case "|" | ")":
                return Token("|" if character == "|" else ")")
            case "*" | "+" | "?":
                least, most = _QUANTIFIERS[character]
                return Token("quantifier", least=least, most=most, prefers=not self._take("?"))
            case "{":
                self._skip_if_expanded()
                return self._bound() if self._is_digit() else self._character(ord("{"))
            case "(":
                return self._parenthesis()
            case "[":
                return self._bracket()
            case ".":
                return Token("characters", characters=self._all_but_newline(()))
            case "^":
                return Token(
                    "anchor", anchor=automaton.Anchor("line begin" if self.options.newline_anchors else "begin")
                )
            case "$":
                return Token("anchor", anchor=automaton.Anchor("line end" if self.options.newline_anchors else "end"))
            case "\\":
                return self._escape()
        return self._character(ord(character))

    def _all_but_newline(self, others: automaton.CharacterSet) -> automaton.CharacterSet:
        """All characters except the others, and except newlines if option ``p`` or ``n`` is set."""
        excluded = automaton.union([others, automaton.NEWLINE]) if self.options.newline_stops else others
        return automaton.complement(excluded) if excluded else automaton.EVERYTHING

    def _character(self, code: int) -> Token:
        return Token("characters", characters=self._range(code, code))

    def _range(self, first: int, last: int) -> automaton.CharacterSet:
        if last < first:
            raise invalid("invalid character range")
        ranges = ((first, min(last, _LAST_CHARACTER)),) if first <= _LAST_CHARACTER else ()
        if not self.options.ignore_case:
            return ranges
        one = chr(first) if first == last <= _LAST_CHARACTER else None
        if one is None or one.lower() != one or one.upper() != one:
            self.knows_letters = True
        return automaton.with_both_cases(ranges)

    def _class(self, name: str) -> automaton.CharacterSet:
        if name not in automaton.FIXED_CLASSES:
            self.knows_letters = True
        if self.options.ignore_case and name in {"lower", "upper"}:
            name = "alpha"
        return automaton.CLASSES[name]

    def _parenthesis(self) -> Token:
        if not self._take("?"):
            return Token("(", captures=True)
        if self._take(":"):
            return Token("(")
        for letters, (ahead, negative) in _LOOKS.items():
            if self._take(letters):
                return Token("look", ahead=ahead, negative=negative)
        raise invalid("quantifier operand invalid")

    def _bound(self) -> Token:
        least = self._repetitions()
        self._skip_if_expanded()
        if not self._take(","):
            self._end_of_bound()
            return Token("quantifier", least=least, most=least)
        self._skip_if_expanded()
        most = self._repetitions() if self._is_digit() else None
        if most is not None and least > most:
            raise invalid("invalid repetition count(s)")
        return Token("quantifier", least=least, most=most, prefers=self._end_of_bound())

    def _repetitions(self) -> int:
        number = 0
        while self._is_digit():
            number = number * 10 + int(self._next(bad_escape))
            if number > MOST_REPETITIONS:
                raise invalid("invalid repetition count(s)")
            self._skip_if_expanded()
        return number

    def _end_of_bound(self) -> bool:
        """Read the end of a bound, and return whether longer matches are preferred."""
        self._skip_if_expanded()
        if self._next(lambda: invalid("braces {} not balanced")) != "}":
            raise invalid("invalid repetition count(s)")
        return not self._take("?")

    # --- escapes

    def _escape(self) -> Token:
        letter = self._next(bad_escape)
        if letter in _ANCHOR_ESCAPES:
            anchor = _ANCHOR_ESCAPES[letter]
            if letter not in {"A", "Z"}:
                self.knows_letters = True
            return Token("anchor", anchor=anchor)
        if letter.lower() in _CLASS_ESCAPES:
            return Token("characters", characters=self._class_escape(letter))
        if letter in _DIGITS[1:]:
            number = self._reference()
            if number is not None:
                return Token("reference", number=number)
        return self._character(self._code_of_escape(letter))

    def _class_escape(self, letter: str) -> automaton.CharacterSet:
        characters = self._class(_CLASS_ESCAPES[letter.lower()])
        return automaton.complement(characters) if letter.isupper() else characters

    def _reference(self) -> int | None:
        """A back reference's number, after its first digit; None for an octal code."""
        start = self._at - 1
        end = start
        while self._pattern[end : end + 1] in {*_DIGITS}:
            end += 1
        number = parse_int(self._pattern[start:end])
        if end == start + 1 or 0 < number <= self.captures:
            self._at = end
            return number
        return None

    def _code_of_escape(self, letter: str) -> int:
        if letter in _CHARACTER_ESCAPES:
            return ord(_CHARACTER_ESCAPES[letter])
        if letter == "c":
            return ord(self._next(bad_escape)) & 0o37
        if letter in {"u", "U", "x"}:
            least, most = {"u": (4, 4), "U": (8, 8), "x": (1, 255)}[letter]
            code = self._number(16, least, most) % 2**32
            if code > _LARGEST_CODE:
                raise bad_escape()
            return code
        if letter in _DIGITS:
            self._at -= 1
            code = self._number(8, 1, 3)
            if code > 0o377:
                self._at -= 1
                code >>= 3
            return code
        if letter in _LETTERS:
            raise bad_escape()
        return ord(letter)

    def _number(self, base: int, least: int, most: int) -> int:
        digits = "0123456789abcdefABCDEF" if base == 16 else "01234567"
        end = self._at
        while end < self._at + most and self._pattern[end : end + 1] in {*digits}:
            end += 1
        if end - self._at < least:
            raise bad_escape()
        number = int(self._pattern[self._at : end], base)
        self._at = end
        return number

    # --- bracket expressions

    def _bracket(self) -> Token:
        for text, anchor in _WORD_BRACKETS.items():
            if self._take(text[1:]):
                self.knows_letters = True
                return Token("anchor", anchor=anchor)
        negative = self._take("^")
        sets: list[automaton.CharacterSet] = []
        is_first = True
        while is_first or not self._take("]"):
            sets.append(self._bracket_item(is_first=is_first))
            is_first = False
        characters = automaton.union(sets)
        return Token("characters", characters=self._all_but_newline(characters) if negative else characters)

    def _bracket_item(self, *, is_first: bool) -> automaton.CharacterSet:
        character = self._next(_unbalanced)
        if character == "-" and not is_first and not self._peek("]"):
            raise invalid("invalid character range")
        if character == "[":
            if self._at >= len(self._pattern):
                raise _unbalanced()
            if self._take(":"):
                name = self._named(":", "invalid character class")
                if name not in automaton.CLASSES:
                    raise invalid("invalid character class")
                return self._class(name)
            if self._take("="):
                code = self._collating_element("=")
                return self._range(code, code)
            code = self._collating_element(".") if self._take(".") else ord("[")
        elif character == "\\":
            letter = self._next(bad_escape)
            if letter.lower() in _CLASS_ESCAPES:
                return self._class_escape(letter)
            if letter in _ANCHOR_ESCAPES or (letter in _DIGITS[1:] and self._reference() is not None):
                raise bad_escape()
            code = self._code_of_escape(letter)
        else:
            code = ord(character)
        return self._range(code, self._end_of_range(code))

    def _end_of_range(self, first: int) -> int:
        """The last character of a range; the first one if it does not begin a range."""
        if not self._peek("-") or self._peek("-]"):
            return first
        self._at += 1
        character = self._next(_unbalanced)
        if character == "[" and self._pattern[self._at : self._at + 1] in {".", ":", "="}:
            if not self._take("."):
                raise invalid("invalid character range")
            return self._collating_element(".")
        if character == "]":
            raise invalid("invalid character range")
        if character == "\\":
            letter = self._next(bad_escape)
            if letter.lower() in _CLASS_ESCAPES:
                raise invalid("invalid character range")
            if letter in _ANCHOR_ESCAPES or (letter in _DIGITS[1:] and self._reference() is not None):
                raise bad_escape()
            return self._code_of_escape(letter)
        return ord(character)

    def _named(self, mark: str, reason: str) -> str:
        end = self._pattern.find(mark + "]", self._at)
        if end < 0:
            raise _unbalanced()
        name = self._pattern[self._at : end]
        self._at = end + 2
        if not name:
            raise invalid(reason)
        return name

    def _collating_element(self, mark: str) -> int:
        name = self._named(mark, "invalid collating element")
        code = ord(name) if len(name) == 1 else _NAMES.get(name)
        if code is None:
            raise invalid("invalid collating element")
        return code


def _unbalanced() -> RowFilterError:
    return invalid("brackets [] not balanced")
