"""PostgreSQL's built-in types: decoding, input and output functions, equality.

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
                            TypeFamily --send--> the bytes of a text in binary format (what a publisher sends)

    registry        all families: a type's OID → its family
    family, form    the classes TypeFamily and Form, and helpers for decoders
    equality        the class Equality
    wire, output    reading the binary format of a single value; Arrow values → text
    oids            the names of the built-in types
    declarations    a type with its modifier, as in CREATE TABLE
    binary_forms    which types can read the binary format of which others

The other modules each implement one family, or a few related ones. Large families have several
modules: ``datetimes`` (a package), ``arrays`` and ``array_text``, ``ranges`` and ``range_values``,
``floats`` and ``float_text``. The families are collected in :mod:`.registry`; importing a module of
a family does not register anything.

The operators and functions of row filters are in :mod:`subscriber.filters.functions`. The targets
define which values are written to which type of column. Both read and write values with this
package. Only the comparison of tables (``subscriber.verify``) has a separate implementation of the
values' text, because it checks the implementation in this package.

Invariants
    - A family has a specific Arrow type only if Arrow can hold every value of the PostgreSQL type.
      So numeric (NaN, any scale), dates and times (infinity, BC, year 294276) are text.
    - Both decoders of a family give the same array for the same values.
    - A value that cannot be read raises an error; it never becomes NULL (absence_is_typed, rule
      C5). Bytes that no publisher sends raise ProtocolError, a text that is not a value of the type
      raises DataException. The error does not show the value.

*Rejected:* Arrow's decimal, date and timestamp types, with a second representation for the values
that do not fit. Every later stage would need both, and a stage that does not handle the second one
would fail only for rare values.
"""

from typing import TYPE_CHECKING

from subscriber.lazy_names import lazy_names

if TYPE_CHECKING:
    from subscriber.types.boolean import boolout
    from subscriber.types.bytea import byteaout
    from subscriber.types.declarations import declared_type
    from subscriber.types.family import Decoder, TypeFamily
    from subscriber.types.numeric import numeric_out
    from subscriber.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
    from subscriber.types.registry import (
        FAMILIES,
        comes_unread,
        decode_column,
        equality_of,
        family_of,
        form_of,
        send_of,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "boolean": ("boolout",),
            "bytea": ("byteaout",),
            "declarations": ("declared_type",),
            "family": ("Decoder", "TypeFamily"),
            "numeric": ("numeric_out",),
            "oids": ("BUILT_IN_TYPES", "ELEMENT_TYPES", "type_name"),
            "registry": ("FAMILIES", "comes_unread", "decode_column", "equality_of", "family_of", "form_of", "send_of"),
        },
    )

__all__ = [
    "BUILT_IN_TYPES",
    "ELEMENT_TYPES",
    "FAMILIES",
    "Decoder",
    "TypeFamily",
    "boolout",
    "byteaout",
    "comes_unread",
    "declared_type",
    "decode_column",
    "equality_of",
    "family_of",
    "form_of",
    "numeric_out",
    "send_of",
    "type_name",
]
