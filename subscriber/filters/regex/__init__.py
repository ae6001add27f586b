r"""PostgreSQL's advanced regular expressions (``src/backend/regex``), exactly.

::

    pattern ──syntax──▶ tree of dissection ──▶ expressions ──automaton──▶ where a match ends
                             │                     └────re2────▶ RE2's notation, for whole columns (yes or no only)
                             └──matching──▶ where the parts of a match are

Their syntax is Perl's, more or less; their meaning is not. Which of the possible matches is taken
is not decided by what a backtracking engine tries first: a match begins as early as it can, and the
whole is as long or as short as the *first quantifier that has a preference* says; then the parts
share it out, from left to right, each by its own preference. ``|`` prefers nothing but length.
Anchors ignore newlines unless asked, a case is ASCII's and so are letters (collation "C";
:attr:`Regex.knows_letters` says when that matters), and back references see one way of dissecting
each part only.

*Rejected:* Python's ``re`` behind a translation. For yes or no it would do where there are no back
references; but it takes exponential time for some patterns, which PostgreSQL does not, and what it
extracts agrees only by luck. So RE2 answers where it can (it has automata, too), and an engine of
our own where it cannot.
"""

from subscriber.filters.regex.matching import Regex, Span, compile_regex
from subscriber.filters.regex.regex_parser import Options

__all__ = ["Options", "Regex", "Span", "compile_regex"]
