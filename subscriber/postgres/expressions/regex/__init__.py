"""PostgreSQL's advanced regular expressions (``src/backend/regex``), evaluated exactly.

::

    pattern ──regex_scanner, regex_parser──▶ tree of dissection ──▶ expressions ──automaton──▶ where a match ends
                                                │                     └───matching─▶ RE2's notation, for whole columns (yes or no only)
                                                └──matching──▶ where the parts of a match are

The syntax is similar to Perl's, but the meaning is different. A match begins as early as possible.
The whole match is as long or as short as the *first quantifier that has a preference* requires. The
parts then divide the match from left to right, each by its own preference. Alternatives with ``|``
prefer the longest match.

Anchors treat newlines as ordinary characters unless an option changes this. Letters and their cases
are those of ASCII (collation "C"); :attr:`Regex.knows_letters` reports whether that matters for a
pattern. For a back reference, only one way to divide each part is tried.

*Rejected:* Python's ``re`` with a translation of the pattern. It takes exponential time for some
patterns, unlike PostgreSQL, and the substrings that it extracts agree only by chance. RE2, which
also uses automata, answers where it can.
"""

from subscriber.postgres.expressions.regex.matching import Regex, Span, compile_regex
from subscriber.postgres.expressions.regex.regex_parser import Options

__all__ = ["Options", "Regex", "Span", "compile_regex"]
