"""How a batch is cut into pieces for several writers, and the order in which they are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply.parallel.piece_order import BeAlone, Line, MeetsOther, _GaveUpError
from subscriber.apply.parallel.pieces import BatchPiece, Cut
from subscriber.base.errors import RowFilterError, Stopped
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.targets import Interruption, open_target
from tests.changes import T, U, delete, insert, update
from tests.frames import frame, prepared, transaction

START = LSN(100)
TRUNCATE = m.Truncate((T.relation_id,), cascade=False, restart_identity=False)

changes = st.lists(
    st.sampled_from([insert("1", "x", "y"), update(("1", "z", "z")), delete("1", None, None), TRUNCATE]), max_size=6
)


def cut_at(messages: Sequence[m.Message], places: Sequence[int]) -> list[Frame]:
    bounds = [0, *sorted({place % (len(messages) + 1) for place in places}), len(messages)]
    return [frame([T, U], messages[first:last]) for first, last in pairwise(bounds)]


def kinds(frames: Sequence[Frame]) -> list[str]:
    """The types of all messages, in their order."""
    found: list[str] = []
    for one in frames:
        items = [(control.position, chr(control.message[0])) for control in one.controls]
        items += [(int(position), group.action) for group in one.groups for position in group.positions]
        found += [kind for _, kind in sorted(items)]
    return found


@given(st.lists(changes, min_size=1, max_size=8), st.lists(st.integers(0, 60), max_size=6), st.integers(1, 8))
def test_pieces_are_whole_transactions_and_nothing_is_left_out(history, places, least):
    messages = [one for n, part in enumerate(history, 1) for one in transaction(1000 * n, *part, xid=n)]
    frames = cut_at(messages, places)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("subscriber.apply.parallel.pieces.LEAST_CHANGES", least)
        cut = Cut((one for one in frames), START)
        pieces = [*cut.pieces]
        assert cut.is_whole
        pieces += cut.last(LSN(1000 * len(history)))
    assert [piece.start for piece in pieces] == [START, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == 1000 * len(history)
    assert [kind for piece in pieces for kind in kinds(piece.frames)] == kinds(frames)
    for piece in pieces:
        inside = kinds(piece.frames)
        assert (inside[0], inside[-1]) == ("B", "C")
        assert piece.truncates is ("T" in inside)
    for piece in pieces[:-1]:
        assert sum(kind in "IUD" for kind in kinds(piece.frames)) >= least


def test_a_prepared_transaction_ends_the_pieces_and_the_rest_is_left(monkeypatch):
    monkeypatch.setattr("subscriber.apply.parallel.pieces.LEAST_CHANGES", 1)
    frames = [
        frame([T, U], part)
        for part in (
            transaction(1000, insert("1", "x", "y")),
            prepared(2000, insert("2", "x", "y")),
            transaction(3000, insert("3", "x", "y")),
        )
    ]
    cut = Cut((one for one in frames), START)
    (first,) = cut.pieces
    assert (first.end, cut.start, cut.is_whole) == (1000, 1000, False)
    assert [*cut.last(LSN(3000))] == []
    assert kinds([*cut.rest()]) == kinds(frames[1:])


def test_an_error_of_reading_ends_the_pieces(monkeypatch):
    monkeypatch.setattr("subscriber.apply.parallel.pieces.LEAST_CHANGES", 1)

    def reading() -> Iterator[Frame]:
        yield frame([T], transaction(1000, insert("1", "x", "y")))
        yield frame([T], transaction(2000, insert("2", "x", "y")))
        raise RowFilterError("a row filter failed")

    cut = Cut(reading(), START)
    assert [piece.end for piece in cut.pieces] == [1000]
    assert isinstance(cut.error, RowFilterError)
    assert not cut.is_whole


# The order of the pieces --------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        yield opened


def line_of(target, number: int) -> tuple[Line, list[BatchPiece]]:
    line = Line(lambda: None)
    pieces = [BatchPiece([], LSN(n), LSN(n + 1), False) for n in range(number)]
    for piece in pieces:
        piece.interruption = Interruption(target)
        line.join(piece)
    return line, pieces


def test_a_piece_is_written_beside_earlier_ones_that_it_does_not_meet(target):
    line, (first, second) = line_of(target, 2)
    line.admit(first, {})
    line.admit(second, {})
    assert (first.is_written, second.is_written) == (True, True)


def test_a_piece_does_not_wait_for_its_turn_for_ever(target):
    line, (first, second) = line_of(target, 2)
    line.admit(first, {})
    line.admit(second, {})
    with pytest.raises(BeAlone):
        line.wait_for_turn(second, 0.05)
    line.leave(first)
    line.wait_for_turn(second, 0.05)


def test_a_piece_that_is_to_be_alone_ends_later_ones_and_waits_for_them(target):
    line, (first, second, third) = line_of(target, 3)
    line.admit(first, {})
    line.admit(second, {})
    line.admit(third, {})
    line.leave(first)
    alone = threading.Thread(target=line.be_alone, args=(second,))
    alone.start()
    with pytest.raises(Stopped):
        line.wait_for_turn(third, 30.0)
    alone.join(0.3)
    assert alone.is_alive()
    line.rolled_back(third)
    alone.join(30.0)
    assert not alone.is_alive()
    with pytest.raises(Stopped):
        line.admit(third, {})


def test_whatever_comes_after_a_piece_that_is_to_be_alone_meets_it(target):
    line, (first,) = line_of(target, 1)
    line.be_alone(first)
    later = BatchPiece([], LSN(1), LSN(2), False)
    later.interruption = Interruption(target)
    line.join(later)
    with pytest.raises(MeetsOther) as met:
        line.admit(later, {})
    assert met.value.pieces == [first]
    line.leave(first)
    line.wait_for(later, [first])
    line.admit(later, {})


def test_when_a_piece_has_failed_the_others_do_not_wait(target):
    line, (first, second) = line_of(target, 2)
    line.admit(first, {})
    line.admit(second, {})
    error = RuntimeError("failed")
    assert line.fail(error) is error
    assert line.fail(ValueError("later")) is error
    with pytest.raises(_GaveUpError):
        line.wait_for_turn(second, 30.0)
