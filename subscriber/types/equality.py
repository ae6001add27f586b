r"""When two values of a type are equal though they are written differently (rules C14, C17).

A target that keeps PostgreSQL's text compares letters, where PostgreSQL compares by the type's
equality operator: ``1.0`` and ``1.00`` are one numeric, ``1 mon`` and ``30 days`` one interval.
Such a type has a *canonical form* here: two values are equal if and only if their canonical forms
are the same text. The form is for comparing only, and is never stored.

===========================  =========================================================================
numeric                      without zeros at the end of the fraction
real, double precision       0 for -0 (as text, which only the elements of arrays are)
interval                     microseconds, with days of 24 hours and months of 30 days
character(n)                 without blanks at the end
jsonb, numrange and its kin  every numeric in it as above
arrays                       every element as above, in quotes
everything else              the text itself: equal values are written alike, or have no equality
===========================  =========================================================================

Each family says which (:attr:`subscriber.types.family.TypeFamily.equality`). User-defined types
(domains, composite types, citext) are compared by their text: only the publisher knows what they
are made of.

json, xml, the geometric types, refcursor, jsonpath, snapshots and what only indexes hold have no
equality: PostgreSQL cannot tell whether two values are equal. Nor can it of their arrays.
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

    Attributes:
        exists: PostgreSQL has an operator for it (rule C17).
        canonical: the canonical form of a value's text; None where equal values are always written
            alike.
        spellings: of a canonical form, a range of texts in byte order, the end excluded, that every
            text of an equal value is in; None where there is no such range worth looking in.
    """

    exists: bool = True
    canonical: Canonical | None = None
    spellings: Spellings | None = None


EXACT: Final = Equality()
"""Equal values are written alike, or the target compares them as the type does."""
NONE: Final = Equality(exists=False)
"""PostgreSQL cannot tell whether two values are equal."""
