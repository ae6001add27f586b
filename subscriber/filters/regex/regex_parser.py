r"""Parses regular expressions into a tree of dissection (``regcomp.c``).

The shape of the tree decides what is matched if preferences are mixed or back references are used.
The tree therefore has the same shape as PostgreSQL's. A branch collects plain items until an item
is *messy*. The messy item becomes a separate node between the items before it and the rest of the
branch.

Basic and extended regular expressions of POSIX (options ``e`` and ``b``) are refused, since filters
do not use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.filters.regex.dissection import (
    MESSY,
    PREFERENCES,
    Branches,
    Iteration,
    Leaf,
    Node,
    Pair,
    Reference,
    Traits,
    Wrapper,
    combined,
    inherited,
)
from subscriber.filters.regex.languages import (
    EMPTY,
    Character,
    Choice,
    Expression,
    Look,
    repeated,
    sequence,
    without_conditions,
)
from subscriber.filters.regex.regex_scanner import Options, Scanner, Token, invalid

__all__ = ["Options", "Parsed", "parse"]

_NONE = Traits(0)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed regular expression.

    Attributes:
        tree: how matches are divided into parts.
        captures: the number of captures.
        ignore_case: whether case is ignored. Back references need this, since they compare matched
            text.
        has_references: whether the expression has back references.
        knows_letters: whether the expression has another meaning under another ctype.
    """

    tree: Node
    captures: int
    ignore_case: bool
    has_references: bool
    knows_letters: bool


def parse(pattern: str, options: Options) -> Parsed:
    """Parse a regular expression.

    Raises:
        RowFilterError: 2201B, the pattern is not a valid regular expression. The message is
            PostgreSQL's.
        NotSupportedError: the pattern is a basic or extended regular expression of POSIX.
    """
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
        self._captures: dict[int, Node] = {}

    def _advance(self) -> None:
        self._token = self.scanner.token()

    def alternatives(self, *, in_look: bool, in_group: bool) -> Node:
        """Parse alternatives, up to the parenthesis that closes the group or to the end."""
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
        expression = Choice(tuple(branch.expression for branch in branches))
        return Branches(expression, traits, tuple(branches)) if traits & MESSY else Leaf(expression, traits)

    def _at_end_of_branch(self, *, in_group: bool) -> bool:
        return self._token.kind in {"|", "end"} or (in_group and self._token.kind == ")")

    def _branch(self, *, in_look: bool, in_group: bool) -> Node:
        items: list[Expression] = []
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
                items.append(EMPTY)
                continue
            together = traits | _preference(quantifier) | atom.traits
            if token.kind == "reference" or atom.capture or inherited(together) & MESSY:
                pair_traits = combined(_preference(quantifier), atom.traits)
                node = _quantified(atom, quantifier, is_reference=token.kind == "reference")
                return self._messy(items, traits, node, pair_traits, in_look=in_look, in_group=in_group)
            items.append(repeated(atom.expression, quantifier.least, quantifier.most))
            traits = together
        return Leaf(sequence(*items), traits)

    def _look(self, token: Token) -> Look:
        self._advance()
        inner = self.alternatives(in_look=True, in_group=True)
        self._advance()
        return Look(inner.expression, token.ahead, token.negative)

    def _atom(self, token: Token, *, in_look: bool) -> Node:
        match token.kind:
            case "characters":
                self._advance()
                return Leaf(Character(token.characters), _NONE)
            case "(":
                return self._group(captures=token.captures and not in_look, in_look=in_look)
            case "reference":
                group = self._captures.get(token.number)
                if in_look or group is None:
                    raise invalid("invalid backreference number")
                self._advance()
                return Reference(without_conditions(group.expression), Traits.REFERS, token.number)
            case ")":
                raise invalid("parentheses () not balanced")
        raise invalid("quantifier operand invalid")

    def _group(self, *, captures: bool, in_look: bool) -> Node:
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
        items: list[Expression],
        traits: Traits,
        node: Node,
        pair_traits: Traits,
        *,
        in_look: bool,
        in_group: bool,
    ) -> Node:
        """Return the items before the messy atom, the atom with its quantifier, and the rest of the
        branch.
        """
        before = Leaf(sequence(*items), traits)
        if self._at_end_of_branch(in_group=in_group):
            if not items:
                return node
            return _pair(before, node, traits | combined(traits, node.traits))
        rest = self._branch(in_look=in_look, in_group=in_group)
        pair_traits |= combined(pair_traits, rest.traits)
        traits |= combined(traits, pair_traits)
        if not items:
            return _pair(node, rest, traits)
        following: Node
        if isinstance(node, Leaf) and isinstance(rest, Leaf) and not inherited(node.traits | rest.traits) & MESSY:
            following = Leaf(sequence(node.expression, rest.expression), combined(node.traits, rest.traits))
        else:
            following = _pair(node, rest, pair_traits)
        return _pair(before, following, traits)


def _preference(quantifier: Token) -> Traits:
    if quantifier.prefers is None:
        return _NONE
    return Traits.LONGER if quantifier.prefers else Traits.SHORTER


def _pair(first: Node, second: Node, traits: Traits) -> Pair:
    return Pair(sequence(first.expression, second.expression), traits, (first, second))


def _quantified(atom: Node, quantifier: Token, *, is_reference: bool) -> Node:
    """Return the node for an atom with a quantifier.

    The quantifier of a back reference becomes part of its node, unless the back reference is in
    parentheses.
    """
    least, most = quantifier.least, quantifier.most
    preference = _preference(quantifier)
    traits = combined(preference, atom.traits)
    if is_reference:
        assert isinstance(atom, Reference)
        atom.expression = repeated(atom.expression, least, most)
        atom.least, atom.most = least, most
        atom.traits |= traits
        return atom
    own = atom.traits & (PREFERENCES | Traits.MIXED)
    if (least, most) == (1, 1) and preference in {_NONE, own} | ({preference} if not own else set()):
        return atom
    if not atom.traits & (Traits.CAPTURES | Traits.REFERS):
        return Leaf(repeated(atom.expression, least, most), traits)
    if least > 0 and not atom.traits & Traits.REFERS:
        # A capture holds only the last repetition, so the repetitions before it are a leaf.
        fewer = least - 1, None if most is None else most - 1
        before = EMPTY if fewer == (0, 0) else repeated(atom.expression, *fewer)
        return _pair(Leaf(before, traits & PREFERENCES), atom, traits)
    return Iteration(repeated(atom.expression, least, most), traits, (atom,), least, most)
