"""Finds where a regular expression matches, and where the parts of the match are (``regexec.c``).

RE2, which Arrow's kernels use, answers for whole columns. Characters are written for it as ranges,
so that the result does not depend on RE2's character classes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.regex import automaton, regex_parser

_ANCHORS: Final = {
    "begin": r"\A",
    "end": r"\z",
    "line begin": "(?m:^)",
    "line end": "(?m:$)",
    "boundary": r"\b",
}
r"""``\B`` is missing: RE2 would find such a place between the bytes of one character."""

_PLAIN: Final = re.compile(r"[0-9A-Za-z ]")


def in_re2(expression: automaton.Language) -> str | None:
    """For ``match_substring_regex``; None if RE2 cannot express it, or refuses it as too large."""
    try:
        pattern = _written(expression)
        pc.match_substring_regex(pa.array([""]), pattern)
    except (LookupError, pa.ArrowInvalid):
        return None
    return pattern


def _written(expression: automaton.Language) -> str:
    match expression:
        case automaton.Character(ranges):
            return _characters(ranges)
        case automaton.Sequence(items):
            return "".join(map(_written, items))
        case automaton.Alternatives(branches):
            return f"(?:{'|'.join(map(_written, branches))})"
        case automaton.Repeat(item, least, most):
            bounds = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            if bounds is None:
                bounds = f"{{{least},{'' if most is None else most}}}"
            return f"(?:{_written(item)}){bounds}"
        case automaton.Anchor(kind):
            return _ANCHORS[kind]
    raise LookupError


def _characters(ranges: automaton.CharacterSet) -> str:
    if ranges == automaton.EVERYTHING:
        return "(?s:.)"
    if not ranges:
        return rf"[^\x{{0}}-\x{{{automaton.EVERYTHING[0][1]:X}}}]"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code(ranges[0][0])
    return (
        "["
        + "".join(_code(first) if first == last else f"{_code(first)}-{_code(last)}" for first, last in ranges)
        + "]"
    )


def _code(code: int) -> str:
    character = chr(code)
    return character if _PLAIN.fullmatch(character) else f"\\x{{{code:X}}}"


_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

Span: TypeAlias = tuple[int, int]
"""The begin and the end, in characters from 0."""


class Regex:
    """A compiled regular expression. ``knows_letters``: the result is PostgreSQL's only if letters
    are those of ASCII ("C"). ``re2`` is for Arrow's kernels; None if RE2 cannot evaluate it.
    """

    def __init__(self, pattern: str, options: regex_parser.Options) -> None:
        parsed = regex_parser.parse(pattern, options)
        self.captures = parsed.captures
        self.knows_letters = parsed.knows_letters
        self.ignores_case = parsed.ignore_case
        self._parsed = parsed
        self._prefers_shorter = bool(parsed.tree.traits & regex_parser.Traits.SHORTER)
        self._is_whole = isinstance(parsed.tree, regex_parser.Leaf) and not parsed.tree.capture
        self._automata: dict[regex_parser.RegexNode, automaton.Automaton] = {}
        self._search = automaton.Automaton(automaton.sequence(automaton.ANYTHING, parsed.tree.expression))
        self._automaton(parsed.tree)
        self.re2 = None if parsed.has_references else in_re2(parsed.tree.expression)

    def _automaton(self, node: regex_parser.RegexNode) -> automaton.Automaton:
        found = self._automata.get(node)
        if found is None:
            found = self._automata[node] = automaton.Automaton(node.expression)
        return found

    def matches(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text."""
        if self._parsed.has_references:
            return self.find(text) is not None
        return self._search.first_end(automaton.Subject(text), 0) is not None

    def find(self, text: str, start: int = 0) -> list[Span | None] | None:
        """The spans of the first match at ``start`` or after it, and of its captures."""
        return self._first(automaton.Subject(text), start)

    def find_all(self, text: str, start: int = 0) -> Iterator[list[Span | None]]:
        """Matches that do not overlap. After an empty one the search goes on a character later."""
        subject = automaton.Subject(text)
        while start <= len(text):
            found = self._first(subject, start)
            if found is None:
                return
            yield found
            begin, end = found[0] or (start, start)
            start = end + 1 if begin == end else end

    def _first(self, subject: automaton.Subject, start: int) -> list[Span | None] | None:
        """Find the first place where any match may end, and try all beginnings up to it.

        If a back reference makes all of them fail, the search continues behind that place, but not
        at the end of the string. PostgreSQL does the same.
        """
        while start <= len(subject.text):
            end = self._search.first_end(subject, start)
            if end is None:
                return None
            for begin in range(start, end + 1):
                spans = self._match_at(subject, begin)
                if spans is not None:
                    return spans
            start = end + 1
            if start == len(subject.text):
                return None
        return None

    def _match_at(self, subject: automaton.Subject, begin: int) -> list[Span | None] | None:
        tree = self._parsed.tree
        ends = self._automaton(tree).ends(subject, begin)
        if ends and self._is_whole:
            return [(begin, ends[0 if self._prefers_shorter else -1]), *[None] * self.captures]
        for end in ends if self._prefers_shorter else reversed(ends):
            dissection = _Dissection(self, subject)
            if dissection.fits(tree, begin, end):
                return [(begin, end), *(dissection.spans.get(number) for number in range(1, self.captures + 1))]
        return None


class _Dissection:
    """One attempt to divide a match into its parts.

    The automaton of a part checks its length before the part itself is divided. So a part can fail
    here only because of a back reference. Then the next place to divide is tried, but no other way
    to divide the part before it. PostgreSQL does the same.
    """

    def __init__(self, regex: Regex, subject: automaton.Subject) -> None:
        self.spans: dict[int, Span] = {}
        self._regex = regex
        self._subject = subject
        self._ends: dict[tuple[regex_parser.RegexNode, int], list[int]] = {}

    def _ends_of(self, node: regex_parser.RegexNode, begin: int) -> list[int]:
        found = self._ends.get((node, begin))
        if found is None:
            found = self._ends[node, begin] = self._regex._automaton(node).ends(self._subject, begin)  # noqa: SLF001  same module
        return found

    def _spans(self, node: regex_parser.RegexNode, begin: int, end: int) -> bool:
        ends = self._ends_of(node, begin)
        place = bisect_left(ends, end)
        return place < len(ends) and ends[place] == end

    def _forget(self, node: regex_parser.RegexNode) -> None:
        self.spans.pop(node.capture, None)
        for child in node.children:
            self._forget(child)

    def fits(self, node: regex_parser.RegexNode, begin: int, end: int) -> bool:
        """Divide a part of the text that the node's automaton matches."""
        match node:
            case regex_parser.Leaf():
                fits = True
            case regex_parser.Pair():
                fits = self._fit_pair(node, begin, end)
            case regex_parser.Branches():
                fits = any(self._spans(child, begin, end) and self.fits(child, begin, end) for child in node.children)
            case regex_parser.Iteration():
                if node.children[0].traits & regex_parser.Traits.SHORTER:
                    fits = self._fit_shortest_iterations(node, begin, end)
                else:
                    fits = self._fit_longest_iterations(node, begin, end)
            case regex_parser.Wrapper():
                fits = self.fits(node.children[0], begin, end)
            case regex_parser.Reference():
                fits = self._fit_reference(node, begin, end)
        if fits and node.capture:
            self.spans[node.capture] = begin, end
        return fits

    def _fit_pair(self, node: regex_parser.Pair, begin: int, end: int) -> bool:
        first, second = node.children
        middles = self._ends_of(first, begin)
        middles = middles[: bisect_right(middles, end)]
        if not first.traits & regex_parser.Traits.SHORTER:
            middles.reverse()
        for middle in middles:
            if self._spans(second, middle, end) and self.fits(first, begin, middle) and self.fits(second, middle, end):
                return True
            self._forget(first)
            self._forget(second)
        return False

    def _fit_reference(self, node: regex_parser.Reference, begin: int, end: int) -> bool:
        span = self.spans.get(node.number)
        if span is None:
            return False
        text = self._subject.text
        referred, actual = text[slice(*span)], text[begin:end]
        if not referred:
            return not actual
        if not actual:
            return node.least == 0
        times, rest = divmod(len(actual), len(referred))
        if rest or times < node.least or (node.most is not None and times > node.most):
            return False
        if self._regex.ignores_case:
            referred, actual = _lower(referred), _lower(actual)
        return actual == referred * times

    def _fit_longest_iterations(self, node: regex_parser.Iteration, begin: int, end: int) -> bool:
        (child,) = node.children
        least = max(node.least, 1)
        most = _most_parts(node, least, end - begin)
        places = [begin, *[end] * most]
        part, limit, verified = 1, end, 0
        while part:
            previous = places[part - 1]
            reached = self._last_end(child, previous, limit)
            if reached is None:
                part -= 1
            else:
                places[part] = reached
                verified = min(verified, part - 1)
                if reached == end:
                    if part >= least:
                        verified = self._verified(child, places[: part + 1], verified)
                        if verified == part:
                            return True
                elif part >= most:
                    part -= 1
                elif reached > previous or not _is_idle(part, least, end - reached):
                    part += 1
                    limit = end
                    continue
            # Shorten the last part that can be shortened. An empty part is used only if too few
            # parts exist.
            while part:
                limit = places[part] - 1
                least_place = places[part - 1]
                if limit > least_place or (limit == least_place and not _is_idle(part, least, end - least_place)):
                    break
                part -= 1
        # PostgreSQL prefers one empty repetition, which sets the captures, to no repetition.
        return node.least == 0 and begin == end

    def _fit_shortest_iterations(self, node: regex_parser.Iteration, begin: int, end: int) -> bool:
        (child,) = node.children
        if node.least == 0 and begin == end:
            return True
        least = max(node.least, 1)
        most = _most_parts(node, least, end - begin)
        places = [begin, *[end] * most]
        part, limit, verified = 1, begin, 0
        while part:
            previous = places[part - 1]
            if limit == previous and limit != end and _is_idle(part, least, end - limit):
                limit += 1
            if part >= most:
                limit = end
            reached = self._first_end(child, previous, limit, end)
            if reached is None:
                part -= 1
            else:
                places[part] = reached
                verified = min(verified, part - 1)
                if reached == end:
                    if part >= least:
                        verified = self._verified(child, places[: part + 1], verified)
                        if verified == part:
                            return True
                elif part >= most:
                    part -= 1
                else:
                    part += 1
                    limit = reached
                    continue
            while part and places[part] >= end:
                part -= 1
            limit = places[part] + 1
        return False

    def _last_end(self, node: regex_parser.RegexNode, begin: int, limit: int) -> int | None:
        ends = self._ends_of(node, begin)
        place = bisect_right(ends, limit)
        return ends[place - 1] if place else None

    def _first_end(self, node: regex_parser.RegexNode, begin: int, least: int, most: int) -> int | None:
        ends = self._ends_of(node, begin)
        place = bisect_left(ends, least)
        return ends[place] if place < len(ends) and ends[place] <= most else None

    def _verified(self, child: regex_parser.RegexNode, places: list[int], verified: int) -> int:
        """How many parts between the places can be divided; ``verified`` are known."""
        for part in range(verified + 1, len(places)):
            self._forget(child)
            if not self.fits(child, places[part - 1], places[part]):
                return part - 1
        return len(places) - 1


def _most_parts(node: regex_parser.Iteration, least: int, length: int) -> int:
    """The largest number of parts; a part is empty only where characters are too few."""
    return max(length if node.most is None else min(length, node.most), least)


def _is_idle(part: int, least: int, left: int) -> bool:
    """Whether an empty part is useless: enough parts exist, or enough characters are left."""
    return part >= least or least - part < left


def _lower(text: str) -> str:
    return text.translate(_LOWER)


@lru_cache(maxsize=1024)
def compile_regex(pattern: str, options: regex_parser.Options) -> Regex:
    """A process compiles each expression once."""
    try:
        return Regex(pattern, options)
    except RecursionError:
        raise NotSupportedError(
            "a regular expression that is nested this deeply cannot be evaluated by the subscriber",
            hint="Write it with fewer levels of parentheses.",
        ) from None
