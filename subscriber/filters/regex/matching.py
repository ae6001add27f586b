"""Finds where a regular expression matches, and where the parts of the match are
(``regexec.c``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from subscriber.errors import NotSupportedError
from subscriber.filters.regex.automaton import ANYTHING, Automaton, Subject
from subscriber.filters.regex.dissection import Branches, Iteration, Leaf, Node, Pair, Reference, Traits, Wrapper
from subscriber.filters.regex.languages import sequence
from subscriber.filters.regex.re2 import in_re2
from subscriber.filters.regex.regex_parser import Options, parse

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

Span: TypeAlias = tuple[int, int]
"""The begin and the end, in characters from 0."""


class Regex:
    """A compiled regular expression.

    Attributes:
        captures: the number of captures.
        knows_letters: whether the result agrees with PostgreSQL's only under a ctype whose letters
            are those of ASCII ("C").
        ignores_case: whether case is ignored, also by back references.
        re2: the expression for Arrow's kernels, which report only whether it matches; None if RE2
            cannot evaluate it.
    """

    def __init__(self, pattern: str, options: Options) -> None:
        parsed = parse(pattern, options)
        self.captures = parsed.captures
        self.knows_letters = parsed.knows_letters
        self.ignores_case = parsed.ignore_case
        self._parsed = parsed
        self._prefers_shorter = bool(parsed.tree.traits & Traits.SHORTER)
        self._is_whole = isinstance(parsed.tree, Leaf) and not parsed.tree.capture
        self._automata: dict[Node, Automaton] = {}
        self._search = Automaton(sequence(ANYTHING, parsed.tree.expression))
        self._automaton(parsed.tree)
        self.re2 = None if parsed.has_references else in_re2(parsed.tree.expression)

    def _automaton(self, node: Node) -> Automaton:
        found = self._automata.get(node)
        if found is None:
            found = self._automata[node] = Automaton(node.expression)
        return found

    def matches(self, text: str) -> bool:
        """Return whether the expression matches anywhere in the text."""
        if self._parsed.has_references:
            return self.find(text) is not None
        return self._search.first_end(Subject(text), 0) is not None

    def find(self, text: str, start: int = 0) -> list[Span | None] | None:
        """Return the first match at ``start`` or after it.

        Returns:
            The span of the match, then the spans of the captures; None if there is no match.
        """
        return self._first(Subject(text), start)

    def find_all(self, text: str, start: int = 0) -> Iterator[list[Span | None]]:
        """Yield all matches from ``start`` on that do not overlap.

        After an empty match, the search continues one character later.
        """
        subject = Subject(text)
        while start <= len(text):
            found = self._first(subject, start)
            if found is None:
                return
            yield found
            begin, end = found[0] or (start, start)
            start = end + 1 if begin == end else end

    def _first(self, subject: Subject, start: int) -> list[Span | None] | None:
        """Return the first match.

        The search finds the first place where any match may end, and tries all beginnings up to it.
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

    def _match_at(self, subject: Subject, begin: int) -> list[Span | None] | None:
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

    The automaton of a part checks the length of the part before the part itself is divided. A part
    that fits its automaton can fail here only because of a back reference. In this case the next
    place to divide is tried, but no other way to divide the part before it. PostgreSQL does the
    same.
    """

    def __init__(self, regex: Regex, subject: Subject) -> None:
        self.spans: dict[int, Span] = {}
        self._regex = regex
        self._subject = subject
        self._ends: dict[tuple[Node, int], list[int]] = {}

    def _ends_of(self, node: Node, begin: int) -> list[int]:
        found = self._ends.get((node, begin))
        if found is None:
            found = self._ends[node, begin] = self._regex._automaton(node).ends(self._subject, begin)  # noqa: SLF001  same module
        return found

    def _spans(self, node: Node, begin: int, end: int) -> bool:
        ends = self._ends_of(node, begin)
        place = bisect_left(ends, end)
        return place < len(ends) and ends[place] == end

    def _forget(self, node: Node) -> None:
        self.spans.pop(node.capture, None)
        for child in node.children:
            self._forget(child)

    def fits(self, node: Node, begin: int, end: int) -> bool:
        """Divide a part of the text that the node's automaton matches."""
        match node:
            case Leaf():
                fits = True
            case Pair():
                fits = self._fit_pair(node, begin, end)
            case Branches():
                fits = any(self._spans(child, begin, end) and self.fits(child, begin, end) for child in node.children)
            case Iteration():
                if node.children[0].traits & Traits.SHORTER:
                    fits = self._fit_shortest_iterations(node, begin, end)
                else:
                    fits = self._fit_longest_iterations(node, begin, end)
            case Wrapper():
                fits = self.fits(node.children[0], begin, end)
            case Reference():
                fits = self._fit_reference(node, begin, end)
        if fits and node.capture:
            self.spans[node.capture] = begin, end
        return fits

    def _fit_pair(self, node: Pair, begin: int, end: int) -> bool:
        first, second = node.children
        middles = self._ends_of(first, begin)
        middles = middles[: bisect_right(middles, end)]
        if not first.traits & Traits.SHORTER:
            middles.reverse()
        for middle in middles:
            if self._spans(second, middle, end) and self.fits(first, begin, middle) and self.fits(second, middle, end):
                return True
            self._forget(first)
            self._forget(second)
        return False

    def _fit_reference(self, node: Reference, begin: int, end: int) -> bool:
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

    def _fit_longest_iterations(self, node: Iteration, begin: int, end: int) -> bool:
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

    def _fit_shortest_iterations(self, node: Iteration, begin: int, end: int) -> bool:
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

    def _last_end(self, node: Node, begin: int, limit: int) -> int | None:
        ends = self._ends_of(node, begin)
        place = bisect_right(ends, limit)
        return ends[place - 1] if place else None

    def _first_end(self, node: Node, begin: int, least: int, most: int) -> int | None:
        ends = self._ends_of(node, begin)
        place = bisect_left(ends, least)
        return ends[place] if place < len(ends) and ends[place] <= most else None

    def _verified(self, child: Node, places: list[int], verified: int) -> int:
        """Return how many parts between the places can be divided.

        The first ``verified`` parts are known to be divisible.
        """
        for part in range(verified + 1, len(places)):
            self._forget(child)
            if not self.fits(child, places[part - 1], places[part]):
                return part - 1
        return len(places) - 1


def _most_parts(node: Iteration, least: int, length: int) -> int:
    """Return the largest number of parts.

    Parts are not empty, unless there must be more parts than characters.
    """
    return max(length if node.most is None else min(length, node.most), least)


def _is_idle(part: int, least: int, left: int) -> bool:
    """Return whether an empty part is useless.

    This is so if there are enough parts, or enough characters for the missing parts.
    """
    return part >= least or least - part < left


def _lower(text: str) -> str:
    return text.translate(_LOWER)


@lru_cache(maxsize=1024)
def compile_regex(pattern: str, options: Options) -> Regex:
    """Return the compiled regular expression. A process compiles each expression once.

    Raises:
        RowFilterError: 2201B, the pattern is not a valid regular expression.
        NotSupportedError: the subscriber cannot evaluate the expression.
    """
    try:
        return Regex(pattern, options)
    except RecursionError:
        raise NotSupportedError(
            "a regular expression that is nested this deeply cannot be evaluated by the subscriber",
            hint="Write it with fewer levels of parentheses.",
        ) from None
