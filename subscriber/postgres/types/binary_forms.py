"""Which types can read each other's binary format (rules C5, D7).

In binary mode, PostgreSQL gives the bytes of a value to the receive function of the *subscriber's*
column, whatever type the publisher's column has::

    integer 5      00 00 00 05                  into bigint    08P01, there are not enough bytes
    bigint 5       00 00 00 00 00 00 00 05      into integer   22P03, there are too many bytes
    text 'four'    66 6f 75 72                  into varchar   the same text
                                                into integer   1718580594, without an error

:data:`READ_BY` contains the pairs of types for which the receive function gives, for every value,
the same result as the input function gives for its text. All other pairs are refused, including
those for which PostgreSQL would store another value without an error, as in the last line.
``tests/conformance/test_binary_forms.py`` compares all pairs with the servers.

These pairs are not included: text types into ``name``, because the input function truncates a value
that the receive function refuses; and ``"char"`` into text types, because some bytes are not a
character by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from subscriber.postgres.types.oids import ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import WITHOUT_BINARY_FORM

TEXT_FORM: Final = 25
"""The binary format of text. Enums and the text types of extensions (citext) read it, too."""
NO_FORM: Final = 0
"""Stands for a user-defined type that has no receive function."""

_TEXTS: Final = frozenset({TEXT_FORM, 1043, 1042, 1790, 114, 142})
_OIDS: Final = frozenset({26, 28, 29})
_NAMED_OIDS: Final = frozenset({24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191})

READ_BY: Final[Mapping[int, frozenset[int]]] = {
    **dict.fromkeys((*_TEXTS, 19), _TEXTS),
    **dict.fromkeys(_OIDS, _OIDS | _NAMED_OIDS),
    23: _OIDS,  # where -1 becomes 4294967295 in both forms
    20: frozenset({5069}),
    **{
        one: frozenset({other})
        for pair in ((1560, 1562), (869, 650), (3802, 4072), (5038, 2970))
        for one, other in (pair, pair[::-1])
    },
    # The opposite direction is not possible: the text of a timestamp is a time in the time zone of
    # the subscriber's session, but its bytes are a time in UTC.
    1184: frozenset({1114}),
    3910: frozenset({3908}),
    4534: frozenset({4533}),
    829: frozenset({774}),
    603: frozenset({601}),
}
"""For built-in types: the other types whose columns read the binary format with the same result as
the text.

The publisher's session, which writes the text, has TimeZone UTC. The subscriber's session has the
time zone of the target.
"""

_BYTES: Final[Mapping[int, int]] = {
    oid: size
    for size, oids in (
        (1, (16, 18)),
        (2, (21,)),
        (4, (23, 700, 1082, *_OIDS, *_NAMED_OIDS)),
        (6, (27, 829)),
        (8, (20, 701, 774, 790, 1083, 1114, 1184, 3220, 5069)),
        (12, (1266,)),
        (16, (600, 1186, 2950)),
        (24, (628, 718)),
        (32, (601, 603)),
    )
    for oid in oids
}
"""The length of the binary format in bytes, for types in which it is always the same."""
_READ_BYTE_BY_BYTE: Final = frozenset({774, 829})


class BinaryRefusal(NamedTuple):
    """PostgreSQL's error for bytes that a type cannot read."""

    message: str
    sqlstate: str


def reads_form(form: int, type_oid: int) -> bool:
    """Whether a column can read values of a built-in type in their binary format. ``form`` is the
    type whose receive function the column has: :data:`TEXT_FORM` for every type that reads texts,
    and :data:`NO_FORM` for a type without a receive function.
    """
    return form == type_oid or form in READ_BY.get(type_oid, ())


def refusal(form: int, type_oid: int, declared: str, number: int | None) -> BinaryRefusal:
    """PostgreSQL's error for values that a column cannot read by :func:`reads_form`. It is 22P03 if
    it would depend on the value, or if PostgreSQL would raise no error. ``declared`` is the
    column's type as declared, ``number`` its number in the stream, from 1; None in a copy.
    """
    if form == NO_FORM or form in WITHOUT_BINARY_FORM:
        return BinaryRefusal(f"no binary input function available for type {declared}", "42883")
    element, expected = ELEMENT_TYPES.get(type_oid), ELEMENT_TYPES.get(form)
    if element is not None and expected is not None:
        return BinaryRefusal(
            f"binary data has array element type {element} ({type_name(element)})"
            f" instead of expected {expected} ({type_name(expected)})",
            "42804",
        )
    sent, wanted = _BYTES.get(type_oid), _BYTES.get(form)
    if sent is not None and wanted is not None and sent < wanted:
        none_or_few = "no" if form in _READ_BYTE_BY_BYTE else "insufficient"
        return BinaryRefusal(f"{none_or_few} data left in message", "08P01")
    where = "" if number is None else f" in logical replication column {number}"
    return BinaryRefusal(f"incorrect binary data format{where}", "22P03")


def read_forms() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For documentation: types of the publisher, and other types that can read all of them."""
    by_readers: dict[frozenset[int], list[int]] = {}
    for type_oid, readers in READ_BY.items():
        by_readers.setdefault(readers, []).append(type_oid)
    for readers, oids in by_readers.items():
        yield tuple(sorted(oids, key=type_name)), tuple(sorted(readers, key=type_name))
