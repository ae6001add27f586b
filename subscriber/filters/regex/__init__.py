r"""Implements PostgreSQL's advanced regular expressions (``src/backend/regex``) exactly.

::

    pattern ──parser──▶ tree of dissection ──▶ expressions ──automaton──▶ where a match ends
                             │                     └────re2────▶ RE2's notation, for whole columns (yes or no only)
                             └──matching──▶ where the parts of a match are

``regex_scanner`` and ``regex_parser`` read a pattern. ``dissection`` defines the tree,
``languages`` the expressions, and ``characters`` the sets of characters. ``matching`` finds
matches. ``automaton`` and ``re2`` evaluate expressions. Other packages import only the names that
this package exports. The SQL functions that use regular expressions are in
:mod:`subscriber.filters.functions.regexps`.

The syntax is similar to Perl's, but the meaning is different. The order in which a backtracking
engine tries matches does not decide which match is taken. A match begins as early as possible. The
whole match is as long or as short as the *first quantifier that has a preference* requires. The
parts then divide the match from left to right, each by its own preference. Alternatives with ``|``
prefer the longest match.

Anchors treat newlines as ordinary characters unless an option changes this. Letters and their cases
are those of ASCII (collation "C"); :attr:`Regex.knows_letters` reports whether that matters for a
pattern. For a back reference, only one way to divide each part is tried.

*Rejected:* Python's ``re`` with a translation of the pattern. It could answer whether a pattern
without back references matches. But it takes exponential time for some patterns, unlike PostgreSQL,
and the substrings that it extracts agree only by chance. Therefore RE2, which also uses automata,
answers where it can. For everything else this package has an engine.
"""

from subscriber.filters.regex.matching import Regex, Span, compile_regex
from subscriber.filters.regex.regex_parser import Options

__all__ = ["Options", "Regex", "Span", "compile_regex"]
