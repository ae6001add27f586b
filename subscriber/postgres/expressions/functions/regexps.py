"""``~`` and the ``regexp_…`` functions, which take the parsed regular expression as first argument.

If the regular expression and its flags are constants, they are parsed when the filter is given. One
that cannot be evaluated exactly is refused then, and the call is ``bytewise`` only if it depends on
which characters are letters. One that comes from a row is parsed for that row and refused there if
necessary. Such a call is always ``bytewise``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import Implementation, elementwise
from subscriber.postgres.expressions.functions.patterns import certain_similar_to_escape, similar_to_escape
from subscriber.postgres.expressions.regex import Options, Regex, Span, compile_regex
from subscriber.postgres.types.arrays import EMPTY, Array

_REFERENCE: Final = re.compile(r"\\([1-9&\\])")
_IGNORE_CASE: Final = Options(ignore_case=True)
_NO_OPTIONS: Final = Options()


class _OfRow:
    """A regular expression of a row, parsed after the other arguments are checked."""

    def __init__(self, read: Callable[[], Regex]) -> None:
        self._read = read
        self._regex: Regex | None = None

    @property
    def regex(self) -> Regex:
        if self._regex is None:
            self._regex = self._read()
        return self._regex

    @property
    def captures(self) -> int:
        return self.regex.captures

    def matches(self, text: str) -> bool:
        return self.regex.matches(text)

    def find(self, text: str, start: int = 0) -> list[Span | None] | None:
        return self.regex.find(text, start)

    def find_all(self, text: str, start: int = 0) -> Iterator[list[Span | None]]:
        return self.regex.find_all(text, start)


def _flags(letters: str, *, shown: bool) -> tuple[Options, bool]:
    """The options, and whether ``g`` is among them; an error shows no flags of a row."""
    options, everywhere = _NO_OPTIONS, False
    for letter in letters:
        if letter == "g":
            everywhere = True
            continue
        changed = options.changed_by(letter)
        if changed is None:
            raise _bad_option(letter, shown=shown)
        options = changed
    if options.quoted and (options.expanded or options.newline_stops or options.newline_anchors):
        raise RowFilterError("invalid regular expression: invalid argument to regex function", sqlstate="2201B")
    return options, everywhere


def _bad_option(option: str, *, shown: bool, hint: str | None = None) -> RowFilterError:
    message = "invalid regular expression option"
    return RowFilterError(f'{message}: "{option}"' if shown else message, sqlstate="22023", hint=hint)


# --- yes or no --------------------------------------------------------------------------------


def _column_matches(pattern: str, negative: bool, value: Any, *_: Any) -> Any:
    found = pc.match_substring_regex(value, pattern)
    return pc.invert(found) if negative else found


def _row_matches(regex: Regex, negative: bool, value: str, *_: Any) -> bool:
    return regex.matches(value) != negative


def _matches_pattern_of_row(options: Options, negative: bool, value: str, pattern: str) -> bool:
    return compile_regex(pattern, options).matches(value) != negative


def _matching(regex: Regex, negative: bool, implementation: Implementation) -> Implementation:
    function: Callable[..., Any] = (
        partial(_row_matches, regex, negative) if regex.re2 is None else partial(_column_matches, regex.re2, negative)
    )
    return dataclasses.replace(
        implementation,
        function=function,
        vectorised=regex.re2 is not None,
        bytewise=regex.knows_letters,
        specialise=None,
    )


def _match_operator(
    options: Options, negative: bool, implementation: Implementation, constants: Mapping[int, Any]
) -> Implementation:
    if 1 not in constants:
        function = partial(_matches_pattern_of_row, options, negative)
        return dataclasses.replace(implementation, function=function, raises=True, specialise=None)
    if constants[1] is None:
        return implementation
    return _matching(compile_regex(constants[1], options), negative, implementation)


def _register_operator(name: str, options: Options, *, negative: bool) -> None:
    elementwise(
        *(f"{prefix}{name}({prefix},text)" for prefix in ("text", "bpchar", "name")),
        raises=False,
        bytewise=True,
        specialise=partial(_match_operator, options, negative),
    )(_row_matches)


_register_operator("regexeq", _NO_OPTIONS, negative=False)
_register_operator("regexne", _NO_OPTIONS, negative=True)
_register_operator("icregexeq", _IGNORE_CASE, negative=False)
_register_operator("icregexne", _IGNORE_CASE, negative=True)


# --- functions --------------------------------------------------------------------------------


def _read(
    name: str, flags_at: int | None, refuses_global: bool, pattern: str, letters: str, *, shown: bool
) -> tuple[Regex, bool]:
    """The regular expression of a call, and whether all matches are to be replaced."""
    if name == "regexp_replace" and flags_at == 3 and letters[:1].isdecimal():
        raise _bad_option(
            letters,
            shown=shown,
            hint="If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        )
    options, everywhere = _flags(letters, shown=shown)
    if everywhere and refuses_global:
        hint = "Use the regexp_matches function instead." if name == "regexp_match" else None
        raise RowFilterError(f'{name}() does not support the "global" option', sqlstate="22023", hint=hint)
    return compile_regex(pattern, options), everywhere


def _with_pattern_of_row(
    function: Callable[..., Any],
    flags_at: int | None,
    read: Callable[..., tuple[Regex, bool]],
    value: str,
    pattern: str,
    *rest: Any,
) -> Any:
    """Call a function whose regular expression or flags are not constants."""
    letters = "" if flags_at is None else rest[flags_at - 2]
    if function is _replaced:
        return function(*read(pattern, letters, shown=False), value, pattern, *rest)
    regex = _OfRow(lambda: read(pattern, letters, shown=False)[0])
    second = (False,) if function in _WITH_SECOND else ()
    return function(regex, *second, value, pattern, *rest)


def _specialised(
    flags_at: int | None, refuses_global: bool, implementation: Implementation, constants: Mapping[int, Any]
) -> Implementation:
    """The implementation of a call with its regular expression and its flags."""
    name = implementation.signature.partition("(")[0]
    read = partial(_read, name, flags_at, refuses_global)
    if 1 not in constants or (flags_at is not None and flags_at not in constants):
        if flags_at is not None and constants.get(flags_at) is not None:
            with suppress(RowFilterError):  # the server raises it for the rows
                _flags(constants[flags_at], shown=True)
        function = partial(_with_pattern_of_row, implementation.function, flags_at, read)
        return dataclasses.replace(implementation, function=function, raises=True, specialise=None)
    letters = "" if flags_at is None else constants[flags_at]
    if constants[1] is None or letters is None:
        return implementation
    try:
        regex, everywhere = read(constants[1], letters, shown=True)
    except RowFilterError as error:
        if name not in _WITH_NUMBERS or error.sqlstate != _INVALID_REGULAR_EXPRESSION:
            raise
        # The server parses the regular expression after it has checked the numbers, which may be
        # invalid, too.
        wrong = (_WrongRegex(error), False) if name == "regexp_replace" else (_WrongRegex(error),)
        function = partial(implementation.function, *wrong)
        return dataclasses.replace(implementation, function=function, raises=True, specialise=None)
    if name == "regexp_like":
        return _matching(regex, False, implementation)
    given = (regex, everywhere) if name == "regexp_replace" else (regex,)
    return dataclasses.replace(
        implementation,
        function=partial(implementation.function, *given),
        bytewise=regex.knows_letters,
        specialise=None,
    )


def _function(
    *signatures: str, flags_at: int | None = None, raises: bool = True, refuses_global: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return elementwise(
        *signatures, raises=raises, bytewise=True, specialise=partial(_specialised, flags_at, refuses_global)
    )


_INVALID_REGULAR_EXPRESSION: Final = "2201B"
_WITH_NUMBERS: Final = frozenset({"regexp_count", "regexp_instr", "regexp_substr", "regexp_replace"})


class _WrongRegex:
    """An invalid regular expression: every attempt to match raises its error."""

    def __init__(self, error: RowFilterError) -> None:
        self._error = error

    def find_all(self, *_: Any) -> Any:
        raise self._error


def _positive(name: str, value: int) -> int:
    if value <= 0:
        raise RowFilterError(f'invalid value for parameter "{name}"', sqlstate="22023")
    return value


def _pieces(text: str, spans: list[tuple[int, int] | None]) -> list[str | None]:
    """The captures of a match, or the whole match if there are no captures."""
    return [None if span is None else text[slice(*span)] for span in spans[1:] or spans]


_function("regexp_like(text,text)", raises=False)(_row_matches)
_function("regexp_like(text,text,text)", flags_at=2, raises=False)(_row_matches)


@_function("regexp_count(text,text,int4,text)", flags_at=3)
@_function("regexp_count(text,text)", "regexp_count(text,text,int4)")
def _count(regex: Regex, value: str, _pattern: str, start: int = 1, _letters: str = "") -> int:
    return sum(1 for _ in regex.find_all(value, _positive("start", start) - 1))


def _part_of_match(regex: Regex, value: str, start: int, number: int, part: int) -> tuple[int, int] | None:
    """The start and end of the n-th match, or of one of its captures."""
    _positive("start", start)
    _positive("n", number)
    if part < 0:
        raise RowFilterError('invalid value for parameter "subexpr"', sqlstate="22023")
    found = next(islice(regex.find_all(value, start - 1), number - 1, None), None)
    if found is None or part > max(regex.captures, 1):
        return None
    return found[part] if regex.captures else found[0]


@_function(
    "regexp_instr(text,text,int4,int4,int4,text)", "regexp_instr(text,text,int4,int4,int4,text,int4)", flags_at=5
)
@_function(
    "regexp_instr(text,text)",
    "regexp_instr(text,text,int4)",
    "regexp_instr(text,text,int4,int4)",
    "regexp_instr(text,text,int4,int4,int4)",
)
def _position(
    regex: Regex,
    value: str,
    _pattern: str,
    start: int = 1,
    number: int = 1,
    behind: int = 0,
    _letters: str = "",
    part: int = 0,
) -> int:
    _positive("start", start)
    _positive("n", number)
    if behind not in {0, 1}:
        raise RowFilterError('invalid value for parameter "endoption"', sqlstate="22023")
    span = _part_of_match(regex, value, start, number, part)
    return 0 if span is None else span[behind] + 1


@_function("regexp_substr(text,text,int4,int4,text)", "regexp_substr(text,text,int4,int4,text,int4)", flags_at=4)
@_function("regexp_substr(text,text)", "regexp_substr(text,text,int4)", "regexp_substr(text,text,int4,int4)")
def _substring_of_match(
    regex: Regex, value: str, _pattern: str, start: int = 1, number: int = 1, _letters: str = "", part: int = 0
) -> str | None:
    span = _part_of_match(regex, value, start, number, part)
    return None if span is None else value[slice(*span)]


@_function("regexp_match(text,text,text)", flags_at=2, raises=False)
@_function("regexp_match(text,text)", raises=False)
def _captures(regex: Regex, value: str, _pattern: str, _letters: str = "") -> Array | None:
    found = regex.find(value)
    return None if found is None else _array(_pieces(value, found))


@_function("regexp_split_to_array(text,text,text)", flags_at=2, raises=False)
@_function("regexp_split_to_array(text,text)", raises=False)
def _split(regex: Regex, value: str, _pattern: str, _letters: str = "") -> Array:
    pieces: list[str | None] = []
    end = 0
    previous = 0
    for spans in regex.find_all(value):
        span = spans[0]
        assert span is not None
        # Empty matches at the ends of the string and directly after the previous match do not
        # count.
        if span[0] < len(value) and span[1] > previous:
            pieces.append(value[end : span[0]])
            end = span[1]
        previous = span[1]
    return _array([*pieces, value[end:]])


def _array(elements: list[str | None]) -> Array:
    return Array((len(elements),), (1,), tuple(elements)) if elements else EMPTY


@_function("substring(text,text)", raises=False)
def _substring(regex: Regex, value: str, _pattern: str) -> str | None:
    found = regex.find(value)
    return None if found is None else _pieces(value, found)[0]


@_function("regexp_replace(text,text,text)", raises=False, refuses_global=False)
@_function("regexp_replace(text,text,text,text)", flags_at=3, raises=False, refuses_global=False)
def _replaced(regex: Regex, everywhere: bool, value: str, _pattern: str, replacement: str, _letters: str = "") -> str:
    return _replace(regex, value, replacement, 1, 0 if everywhere else 1)


@_function("regexp_replace(text,text,text,int4)", refuses_global=False)
def _replaced_from(regex: Regex, _everywhere: bool, value: str, _pattern: str, replacement: str, start: int) -> str:
    return _replace(regex, value, replacement, _positive("start", start), 1)


@_function("regexp_replace(text,text,text,int4,int4)", refuses_global=False)
@_function("regexp_replace(text,text,text,int4,int4,text)", flags_at=5, refuses_global=False)
def _replaced_nth(
    regex: Regex,
    _everywhere: bool,
    value: str,
    _pattern: str,
    replacement: str,
    start: int,
    number: int,
    _letters: str = "",
) -> str:
    _positive("start", start)
    if number < 0:
        raise RowFilterError('invalid value for parameter "n"', sqlstate="22023")
    return _replace(regex, value, replacement, start, number)


def _replace(regex: Regex, value: str, replacement: str, start: int, number: int) -> str:
    """Replace the n-th match, or all matches if ``number`` is 0."""
    result = []
    end = 0
    for count, spans in enumerate(regex.find_all(value, start - 1), start=1):
        if number and count != number:
            continue
        span = spans[0]
        assert span is not None
        result += [value[end : span[0]], _REFERENCE.sub(partial(_referred, value, spans), replacement)]
        end = span[1]
        if number:
            break
    return "".join([*result, value[end:]])


def _referred(value: str, spans: list[tuple[int, int] | None], reference: re.Match[str]) -> str:
    if reference[1] == "\\":
        return "\\"
    number = 0 if reference[1] == "&" else int(reference[1])
    span = spans[number] if number < len(spans) else None
    return "" if span is None else value[slice(*span)]


# --- SUBSTRING(… SIMILAR … ESCAPE …) ----------------------------------------------------------


def _with_similar_pattern(implementation: Implementation, constants: Mapping[int, Any]) -> Implementation:
    if 1 not in constants or 2 not in constants:
        return dataclasses.replace(
            implementation, function=_substring_of_row, strict=False, raises=True, specialise=None
        )
    if constants[1] is None or constants[2] is None:
        return implementation
    regex = compile_regex(similar_to_escape(constants[1], constants[2]), _NO_OPTIONS)
    return dataclasses.replace(
        implementation, function=partial(_substring_similar, regex), bytewise=regex.knows_letters, specialise=None
    )


@elementwise("substring(text,text,text)", raises=False, bytewise=True, specialise=_with_similar_pattern)
def _substring_similar(regex: Regex, value: str, _pattern: str, _escape: str) -> str | None:
    found = regex.find(value)
    return None if found is None else _pieces(value, found)[0]


def _substring_of_row(value: str | None, pattern: str | None, escape: str | None) -> str | None:
    """SUBSTRING with a row's pattern, parsed even if the text is NULL: the server inlines it."""
    if pattern is None or escape is None:
        return None
    converted = certain_similar_to_escape(pattern, escape)
    return None if value is None else _substring_similar(compile_regex(converted, _NO_OPTIONS), value, pattern, escape)


_WITH_SECOND: Final = frozenset({_row_matches, _replaced_from, _replaced_nth})
"""The functions that take a further argument after the regular expression."""
