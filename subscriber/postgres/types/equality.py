"""When two values of a type are equal although their texts differ: if and only if their *canonical
forms* are the same text (rules C14, C17).

A target that stores PostgreSQL's text compares the characters, but PostgreSQL compares by the
type's equality operator. The canonical form is used only for comparison and is never stored::

    numeric                   without zeros at the end of the fraction
    real, double precision    0 for -0 (as text, which only the elements of arrays are)
    interval                  microseconds, with days of 24 hours and months of 30 days
    character(n)              without blanks at the end
    jsonb, ranges of numeric  every numeric in it as above
    arrays                    every element as above, in quotes
    everything else           the text itself: equal values have the same text, or the type has no equality

User-defined types (domains, composite types, citext) are compared by their text, because only the
publisher knows their definition. json, xml, the geometric types, refcursor, jsonpath, snapshots and
the types that exist only in indexes have no equality, and neither have arrays of these types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Canonical = Callable[[str], str]
Spellings = Callable[[str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Equality:
    """How two values of a type are compared.

    ``canonical`` gives the canonical form of a text; None if equal values always have the same
    text. ``spellings`` gives, for a canonical form, a range of texts in byte order (without its
    end) that contains every text of an equal value; None if there is no useful range.
    """

    exists: bool = True
    canonical: Canonical | None = None
    spellings: Spellings | None = None


EXACT: Final = Equality()
"""Equal values have the same text, or the target's comparison is that of the type."""
NONE: Final = Equality(exists=False)
"""PostgreSQL cannot determine whether two values are equal."""
