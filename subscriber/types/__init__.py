"""PostgreSQL's types, one file a family: wire, Arrow, input and output function, equality.

::

    relation's type OID --family_of--> TypeFamily --decode_text / decode_binary--> pa.Array
                                        |
                                        boolean                  bool
                                        smallint integer bigint  int16 int32 int64
                                        oid xid cid              int64
                                        real, double precision   float32, float64
                                        bytea                    binary
                                        everything else          string: the type's own text

                            TypeFamily --form--> Form: from_text, to_text, compare (what filters compute with)
                            TypeFamily --equality--> Equality: canonical forms of texts

One file a family has all of that, or a few files where a family is large: ``datetimes``, ``arrays``
and ``array_text``, ``ranges`` and ``range_values``. :mod:`.registry` puts the families together;
nothing is registered by importing it. Row filters have operators and functions, targets say which
values become which column's: both read and write values with what is here. Only the comparison of
tables (``subscriber.verify``) writes values itself: it is the oracle of what is here.

Invariants
    - A family has an Arrow type of its own only where Arrow holds every value that PostgreSQL's
      type has. So numeric (NaN, any scale), dates and times (infinity, BC, year 294276) are text.
    - Both decoders of a family give the same array for the same values.
    - What cannot be read raises; it never becomes NULL (absence_is_typed, rule C5). Bytes that no
      publisher sends are a ProtocolError, a text that is no value is a DataException. Neither
      shows the value.

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
