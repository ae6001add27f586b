"""Which rows a piece touches: two pieces that touch a common row are always found to meet."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from subscriber.apply.parallel.touched_rows import TouchedRows, meet, touched_rows
from subscriber.postgres.protocol import messages as m
from tests.frames import frame, relation, transaction, values

PLAIN = relation("public.plain", {"k": "int4", "v": "text"}, ["k"], oid=1)
PAIR = relation("public.pair", {"a": "int4", "b": "text", "v": "text"}, ["a", "b"], oid=2)
LOG = relation("public.log", {"v": "text"}, oid=3)
CONNECTED = relation("public.connected", {"k": "int4"}, ["k"], oid=4)
KEYS: dict[m.Relation, tuple[str, ...] | None] = {PLAIN: ("k",), PAIR: ("a", "b"), LOG: (), CONNECTED: None}


def touched(*messages: m.Message, text: bool = False) -> TouchedRows | None:
    made = frame(KEYS, transaction(1000, *messages), text=text)
    return touched_rows([made], lambda group: KEYS[group.relation], lambda one: (one.namespace, one.name))


numbers = st.integers(0, 9)
words = st.sampled_from(["x", "", "x y", "é"])


@st.composite
def changes(draw: st.DrawFn) -> tuple[m.Message, set[tuple[object, ...]]]:
    """A change, and the rows that it touches."""
    key, other, word, another = draw(numbers), draw(numbers), draw(words), draw(words)
    match draw(st.sampled_from("IUMDiumdnL")):
        case "I":
            return m.Insert(1, values(str(key), word)), {("plain", key)}
        case "U":
            return m.Update(1, None, None, values(str(key), m.UNCHANGED)), {("plain", key)}
        case "M":
            return m.Update(1, "K", values(str(key), None), values(str(other), word)), {
                ("plain", key),
                ("plain", other),
            }
        case "D":
            return m.Delete(1, "K", values(str(key), None)), {("plain", key)}
        case "i":
            return m.Insert(2, values(str(key), word, "")), {("pair", key, word)}
        case "u":
            return m.Update(2, None, None, values(str(key), word, "")), {("pair", key, word)}
        case "m":  # the other part of the key is stored out of line, and was not sent again
            return (
                m.Update(2, "K", values(str(key), word, None), values(str(other), m.UNCHANGED, "")),
                {("pair", key, word), ("pair", other, word)},
            )
        case "d":
            return m.Delete(2, "O", values(str(key), word, "old")), {("pair", key, word)}
        case "L":
            return m.Insert(3, values(word)), set()
        case _:
            return (
                m.Update(2, "K", values(str(key), word, None), values(str(other), another, "")),
                {("pair", key, word), ("pair", other, another)},
            )


pieces = st.lists(changes(), max_size=8)


@given(pieces, pieces, st.booleans())
def test_two_pieces_meet_exactly_if_they_touch_a_common_row(one, other, text):
    found = [touched(*(message for message, _ in piece), text=text) for piece in (one, other)]
    rows = [set().union(*(rows for _, rows in piece)) for piece in (one, other)]
    assert found[0] is not None
    assert found[1] is not None
    expected = bool(rows[0] & rows[1])
    event(f"meet: {expected}")
    assert meet(found[0], found[1]) is meet(found[1], found[0]) is expected


@given(pieces)
def test_a_table_whose_rows_are_connected_makes_a_piece_alone(piece):
    assert touched(*(message for message, _ in piece), m.Insert(4, values("1"))) is None


def test_a_key_that_is_not_known_makes_a_piece_alone():
    assert touched(m.Update(2, None, None, values("1", m.UNCHANGED, "x"))) is None
    assert touched(m.Insert(1, values(None, "x"))) is None


def test_keys_in_two_forms_may_be_the_same():
    one, other = touched(m.Insert(1, values("1", "x"))), touched(m.Insert(1, values("2", "x")), text=True)
    assert one is not None
    assert other is not None
    assert meet(one, other)


def test_tables_that_are_not_applied_do_not_count():
    made = frame(KEYS, transaction(1000, m.Insert(4, values("1"))))
    assert touched_rows([made], lambda group: KEYS[group.relation], lambda _relation: None) == {}
