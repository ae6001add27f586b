"""PostgreSQL's types: wire text and wire binary to Arrow, one file a family.

::

    relation's type OID --family_of--> TypeFamily --decode_text / decode_binary--> pa.Array
                                        |
                                        boolean                  bool
                                        smallint integer bigint  int16 int32 int64
                                        oid xid cid              int64
                                        real, double precision   float32, float64
                                        bytea                    binary
                                        everything else          string: the type's own text

Invariants
    - A family has an Arrow type of its own only where Arrow holds every value that PostgreSQL's
      type has. So numeric (NaN, any scale), dates and times (infinity, BC, year 294276) are text.
    - Both decoders of a family give the same array for the same values.
    - What cannot be read raises; it never becomes NULL (absence_is_typed, rule C5).

Rejected: Arrow's decimal, date and timestamp with an escape for the values that do not fit. Every
later stage would need both, and the first one to forget would be wrong only on rare values.
"""

from subscriber.types.declarations import declared_type
from subscriber.types.family import Decoder, TypeFamily
from subscriber.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.types.registry import FAMILIES, comes_unread, decode_column, equality_of, family_of, form_of

__all__ = [
    "BUILT_IN_TYPES",
    "ELEMENT_TYPES",
    "FAMILIES",
    "Decoder",
    "TypeFamily",
    "comes_unread",
    "declared_type",
    "decode_column",
    "equality_of",
    "family_of",
    "form_of",
    "type_name",
]
