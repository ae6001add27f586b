"""Parses regular expressions into a tree of dissection (``regcomp.c``), which says how a match is
divided into its parts.

The shape of the tree decides what is matched if preferences are mixed or back references are used,
so it is PostgreSQL's. A branch collects plain items until an item is *messy*, which becomes a
separate node between the items before it and the rest of the branch. Basic and extended regular
expressions of POSIX (options ``e`` and ``b``) are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TypeAlias

from subscriber.postgres.expressions.regex import automaton
from subscriber.postgres.expressions.regex.regex_scanner import Options, Scanner, Token, invalid


class Traits(IntFlag):
    """``flags`` of ``struct subre``. A preference is a node's own; others hold above it, too."""

    LONGER = 1
    SHORTER = 2
    MIXED = 4
    CAPTURES = 8
    REFERS = 16


PREFERENCES = Traits.LONGER | Traits.SHORTER
MESSY = Traits.MIXED | Traits.CAPTURES | Traits.REFERS
"""The traits that require a separate node."""


def inherited(traits: Traits) -> Traits:
    """``UP``: what a node inherits from its children. Both preferences together become MIXED."""
    mixed = Traits.MIXED if traits & PREFERENCES == PREFERENCES else Traits(0)
    return traits & ~PREFERENCES | mixed


def combined(first: Traits, second: Traits) -> Traits:
    """``COMBINE``: the traits of a sequence of two nodes. The first preference decides."""
    return inherited(first | second) | (first & PREFERENCES or second & PREFERENCES)


@dataclass(slots=True, eq=False)
class Leaf:
    """A node whose parts are not needed."""

    expression: automaton.Language
    traits: Traits
    capture: int = 0
    children: tuple[RegexNode, ...] = ()


@dataclass(slots=True, eq=False)
class Pair:
    expression: automaton.Language
    traits: Traits
    children: tuple[RegexNode, RegexNode]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Branches:
    """Alternatives. The first child that fits is taken."""

    expression: automaton.Language
    traits: Traits
    children: tuple[RegexNode, ...]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Iteration:
    expression: automaton.Language
    traits: Traits
    children: tuple[RegexNode]
    least: int
    most: int | None
    capture: int = 0


@dataclass(slots=True, eq=False)
class Wrapper:
    """A capture whose content is also a capture."""

    expression: automaton.Language
    traits: Traits
    children: tuple[RegexNode]
    capture: int


@dataclass(slots=True, eq=False)
class Reference:
    """The text that the capture with this number matched, ``least`` to ``most`` times."""

    expression: automaton.Language
    traits: Traits
    number: int
    least: int = 1
    most: int | None = 1
    capture: int = 0
    children: tuple[RegexNode, ...] = field(default=())


RegexNode: TypeAlias = Leaf | Pair | Branches | Iteration | Wrapper | Reference


__all__ = ["Options", "Parsed", "parse"]

_NONE = Traits(0)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed regular expression. Back references need ``ignore_case``: they compare text."""

    tree: RegexNode
    captures: int
    ignore_case: bool
    has_references: bool
    knows_letters: bool


def parse(pattern: str, options: Options) -> Parsed:
    """Parse a regular expression; RowFilterError 2201B, NotSupportedError for POSIX's kinds."""
    parser = _Parser(Scanner(pattern, options))
    tree = parser.alternatives(in_look=False, in_group=False)
    scanner = parser.scanner
    return Parsed(
        tree, scanner.captures, scanner.options.ignore_case, bool(tree.traits & Traits.REFERS), scanner.knows_letters
    )


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self._token = scanner.token()
        self._captures: dict[int, RegexNode] = {}

    def _advance(self) -> None:
        self._token = self.scanner.token()

    def alternatives(self, *, in_look: bool, in_group: bool) -> RegexNode:
        """Parse up to the parenthesis that closes the group, or to the end."""
        branches = [self._branch(in_look=in_look, in_group=in_group)]
        traits = Traits.LONGER
        traits |= inherited(traits | branches[0].traits)
        while self._token.kind == "|":
            self._advance()
            branch = self._branch(in_look=in_look, in_group=in_group)
            traits |= inherited(traits | branch.traits)
            branches.append(branch)
        if in_group and self._token.kind != ")":
            raise invalid("parentheses () not balanced")
        if len(branches) == 1:
            return branches[0]
        expression = automaton.Alternatives(tuple(branch.expression for branch in branches))
        return Branches(expression, traits, tuple(branches)) if traits & MESSY else Leaf(expression, traits)

    def _at_end_of_branch(self, *, in_group: bool) -> bool:
        return self._token.kind in {"|", "end"} or (in_group and self._token.kind == ")")

    def _branch(self, *, in_look: bool, in_group: bool) -> RegexNode:
        items: list[automaton.Language] = []
        traits = _NONE
        while not self._at_end_of_branch(in_group=in_group):
            token = self._token
            if token.anchor is not None:
                self._advance()
                items.append(token.anchor)
                continue
            if token.kind == "look":
                items.append(self._look(token))
                continue
            atom = self._atom(token, in_look=in_look)
            quantifier = self._quantifier()
            if quantifier.most == 0:
                # {0} removes the atom. A back reference to a capture in the atom is allowed, and
                # never matches.
                items.append(automaton.EMPTY)
                continue
            together = traits | _preference(quantifier) | atom.traits
            if token.kind == "reference" or atom.capture or inherited(together) & MESSY:
                pair_traits = combined(_preference(quantifier), atom.traits)
                node = _quantified(atom, quantifier, is_reference=token.kind == "reference")
                return self._messy(items, traits, node, pair_traits, in_look=in_look, in_group=in_group)
            items.append(automaton.repeated(atom.expression, quantifier.least, quantifier.most))
            traits = together
        return Leaf(automaton.sequence(*items), traits)

    def _look(self, token: Token) -> automaton.Lookaround:
        self._advance()
        inner = self.alternatives(in_look=True, in_group=True)
        self._advance()
        return automaton.Lookaround(inner.expression, token.ahead, token.negative)

    def _atom(self, token: Token, *, in_look: bool) -> RegexNode:
        match token.kind:
            case "characters":
                self._advance()
                return Leaf(automaton.Character(token.characters), _NONE)
            case "(":
                return self._group(captures=token.captures and not in_look, in_look=in_look)
            case "reference":
                group = self._captures.get(token.number)
                if in_look or group is None:
                    raise invalid("invalid backreference number")
                self._advance()
                return Reference(automaton.without_conditions(group.expression), Traits.REFERS, token.number)
            case ")":
                raise invalid("parentheses () not balanced")
        raise invalid("quantifier operand invalid")

    def _group(self, *, captures: bool, in_look: bool) -> RegexNode:
        number = 0
        if captures:
            self.scanner.captures += 1
            number = self.scanner.captures
        self._advance()
        inner = self.alternatives(in_look=in_look, in_group=True)
        self._advance()
        if not number:
            return inner
        if inner.capture:
            inner = Wrapper(inner.expression, inner.traits | Traits.CAPTURES, (inner,), number)
        else:
            inner.traits |= Traits.CAPTURES
            inner.capture = number
        self._captures[number] = inner
        return inner

    def _quantifier(self) -> Token:
        token = self._token
        if token.kind != "quantifier":
            return Token("quantifier")
        self._advance()
        return token

    def _messy(
        self,
        items: list[automaton.Language],
        traits: Traits,
        node: RegexNode,
        pair_traits: Traits,
        *,
        in_look: bool,
        in_group: bool,
    ) -> RegexNode:
        """The items before a messy atom, the atom with its quantifier, and what follows."""
        before = Leaf(automaton.sequence(*items), traits)
        if self._at_end_of_branch(in_group=in_group):
            if not items:
                return node
            return _pair(before, node, traits | combined(traits, node.traits))
        rest = self._branch(in_look=in_look, in_group=in_group)
        pair_traits |= combined(pair_traits, rest.traits)
        traits |= combined(traits, pair_traits)
        if not items:
            return _pair(node, rest, traits)
        following: RegexNode
        if isinstance(node, Leaf) and isinstance(rest, Leaf) and not inherited(node.traits | rest.traits) & MESSY:
            following = Leaf(automaton.sequence(node.expression, rest.expression), combined(node.traits, rest.traits))
        else:
            following = _pair(node, rest, pair_traits)
        return _pair(before, following, traits)


def _preference(quantifier: Token) -> Traits:
    if quantifier.prefers is None:
        return _NONE
    return Traits.LONGER if quantifier.prefers else Traits.SHORTER


def _pair(first: RegexNode, second: RegexNode, traits: Traits) -> Pair:
    return Pair(automaton.sequence(first.expression, second.expression), traits, (first, second))


def _quantified(atom: RegexNode, quantifier: Token, *, is_reference: bool) -> RegexNode:
    """An atom with a quantifier. A back reference takes it in, unless it is in parentheses."""
    least, most = quantifier.least, quantifier.most
    preference = _preference(quantifier)
    traits = combined(preference, atom.traits)
    if is_reference:
        assert isinstance(atom, Reference)
        atom.expression = automaton.repeated(atom.expression, least, most)
        atom.least, atom.most = least, most
        atom.traits |= traits
        return atom
    own = atom.traits & (PREFERENCES | Traits.MIXED)
    if (least, most) == (1, 1) and preference in {_NONE, own} | ({preference} if not own else set()):
        return atom
    if not atom.traits & (Traits.CAPTURES | Traits.REFERS):
        return Leaf(automaton.repeated(atom.expression, least, most), traits)
    if least > 0 and not atom.traits & Traits.REFERS:
        # A capture holds only the last repetition, so the repetitions before it are a leaf.
        fewer = least - 1, None if most is None else most - 1
        before = automaton.EMPTY if fewer == (0, 0) else automaton.repeated(atom.expression, *fewer)
        return _pair(Leaf(before, traits & PREFERENCES), atom, traits)
    return Iteration(automaton.repeated(atom.expression, least, most), traits, (atom,), least, most)
