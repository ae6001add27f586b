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

                            TypeFamily --form--> Form: from_text, to_text, compare, for filters
                            TypeFamily --equality--> Equality: canonical forms of texts
                            TypeFamily --send--> the bytes of a text in binary format

    registry         all families: a type's OID → its family
    family           the classes TypeFamily and Form, and helpers for decoders
    equality         the class Equality
    oids             the names of the built-in types; a type with its modifier, as in CREATE TABLE
    binary_forms     which types can read the binary format of which others
    older_inputs     the input functions of older servers

The other modules implement related families: ``integers`` (with boolean, pg_lsn, snapshots),
``floats`` (and ``float_text``), ``numeric``, ``text``, ``json``, ``byte_strings`` (bytea, bit),
``network`` (with macaddr and uuid), ``datetimes``, ``passed_through`` (geometric types, text
search), ``arrays`` and ``ranges``. ``subscriber.verify`` writes values' texts itself, because it
checks this package.

Invariants
    - A family has a specific Arrow type only if Arrow can hold every value of the PostgreSQL type.
      So numeric (NaN, any scale), dates and times (infinity, BC, year 294276) are text.
    - Both decoders of a family give the same array for the same values.
    - A value that cannot be read raises an error; it never becomes NULL (absence_is_typed, rule
      C5). Bytes that no publisher sends raise ProtocolError, a text that is not a value of the type
      raises DataException. The error does not show the value.
"""
