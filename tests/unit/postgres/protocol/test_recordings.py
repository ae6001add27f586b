"""Streams recorded from real servers decode, re-encode to the same bytes, and are made as the rules
say.

`tests/recordings/record.py` made the files and says how. A stream is walked once with the state
that a subscriber has: the open transaction or stream block, and the relations it was told of.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import Keepalive, XLogData, decode_envelope, encode_envelope
from subscriber.postgres.protocol.messages import NULL, UNCHANGED, BinaryValue, TextValue

DIRECTORY = Path(__file__).parents[3] / "recordings"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in DIRECTORY.glob("pg*.json.gz"))
FIXED_SIZES = {"B": 21, "C": 26, "S": 6, "E": 1, "c": 30}
EVERY_NAME = pytest.mark.parametrize("name", NAMES)


@dataclass(slots=True)
class Recording:
    """A recorded stream, decoded."""

    options: dict[str, Any]
    copy_data: list[bytes]
    messages: list[tuple[XLogData, m.Message]] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(message.type_byte for _, message in self.messages)


@functools.cache
def recording(name: str) -> Recording:
    """Read a file and decode it as a receiver would: inside a stream block from S to E."""
    content = json.loads(gzip.decompress((DIRECTORY / f"{name}.json.gz").read_bytes()))
    copy_data = [bytes.fromhex(data) for data in content.pop("copy_data")]
    read = Recording(content, copy_data)
    in_stream, parallel = False, content["streaming"] == "parallel"
    for envelope in map(decode_envelope, copy_data):
        if not isinstance(envelope, XLogData):
            continue
        message = decode(envelope.payload, in_stream=in_stream, write_abort_info=parallel)
        in_stream = not isinstance(message, m.StreamStop) and (in_stream or isinstance(message, m.StreamStart))
        read.messages.append((envelope, message))
    return read


@EVERY_NAME
def test_every_recorded_byte_is_told_exactly(name):
    """A.2: messages and envelopes re-encode to what came."""
    read = recording(name)
    for data in read.copy_data:
        assert encode_envelope(decode_envelope(data)) == data
    for envelope, message in read.messages:
        assert encode(message) == envelope.payload


@EVERY_NAME
def test_blocks_are_opened_and_closed_in_order(name):
    """A3, A4: B..C, b..P and S..E do not nest, and an xid is there exactly from S to E."""
    closes = {"B": "C", "b": "P", "S": "E"}
    expected: str | None = None
    for _, message in recording(name).messages:
        kind = message.type_byte
        if kind in closes:
            assert expected is None
            expected = closes[kind]
        elif kind in closes.values():
            assert kind == expected
            expected = None
        elif kind in "RYIUDT" or (isinstance(message, m.LogicalMessage) and message.transactional):
            assert expected is not None
            assert (getattr(message, "xid", None) is not None) == (expected == "E")
        elif kind == "O":
            assert expected is not None
        else:
            assert expected is None
    assert expected is None


@EVERY_NAME
def test_begin_and_end_tell_the_same_transaction(name):
    """A17: final_lsn is the commit's LSN; b and P agree in everything."""
    begin: m.Begin | m.BeginPrepare | None = None
    for _, message in recording(name).messages:
        match message:
            case m.Begin() | m.BeginPrepare():
                begin = message
            case m.Commit():
                assert isinstance(begin, m.Begin)
                assert (begin.final_lsn, begin.commit_timestamp) == (message.commit_lsn, message.commit_timestamp)
                assert message.end_lsn > message.commit_lsn
            case m.Prepare():
                assert isinstance(begin, m.BeginPrepare)
                assert (begin.prepare_lsn, begin.end_lsn, begin.prepare_timestamp, begin.xid, begin.gid) == (
                    message.prepare_lsn,
                    message.end_lsn,
                    message.prepare_timestamp,
                    message.xid,
                    message.gid,
                )
            case _:
                pass


@EVERY_NAME
def test_a_relation_is_told_before_its_changes_and_fits_them(name):
    """A9, A10, A24: every tuple is full width, K tuples too; O means FULL."""
    relations: dict[int, m.Relation] = {}
    for _, message in recording(name).messages:
        match message:
            case m.Relation():
                relations[message.relation_id] = message
            case m.Truncate():
                assert set(message.relation_ids) <= set(relations)
            case m.Insert():
                assert len(message.new) == len(relations[message.relation_id].columns)
            case m.Update() | m.Delete():
                relation = relations[message.relation_id]
                tuples = (message.old, message.new) if isinstance(message, m.Update) else (message.old,)
                assert {len(values) for values in tuples if values is not None} == {len(relation.columns)}
                if message.old_kind is not None:
                    assert (message.old_kind == "O") == (relation.replica_identity == "f")
                if message.old_kind == "K" and message.old is not None:
                    others = [v for c, v in zip(relation.columns, message.old, strict=True) if not c.is_identity]
                    assert set(others) <= {NULL}
            case _:
                pass


@EVERY_NAME
def test_sizes_are_those_of_the_table(name):
    """A.2; A5: Stream Abort has its extra fields iff parallel streaming was asked for."""
    read = recording(name)
    sizes = {**FIXED_SIZES, "A": 25 if read.options["streaming"] == "parallel" else 9}
    for envelope, message in read.messages:
        if message.type_byte in sizes:
            assert len(envelope.payload) == sizes[message.type_byte]


@EVERY_NAME
def test_what_was_not_asked_for_is_not_sent(name):
    """A.4: stream blocks, prepared transactions, messages and binary values are options."""
    read = recording(name)
    counts, options = read.counts, read.options
    assert bool(counts["S"]) == (options["streaming"] is not None)
    assert bool(counts["b"]) == bool(counts["K"]) == bool(counts["r"]) == options["two_phase"]
    assert bool(counts["p"]) == (options["two_phase"] and options["streaming"] is not None)
    assert bool(counts["M"]) == options["messages"]
    values = {type(value) for _, message in read.messages if isinstance(message, m.Insert) for value in message.new}
    assert values - {m.Absence} == ({BinaryValue} if options["binary"] else {TextValue})


@EVERY_NAME
def test_the_workload_is_all_there(name):
    """What each recording must hold to be worth its tests."""
    read = recording(name)
    every = [message for _, message in read.messages]
    updates = [message for message in every if isinstance(message, m.Update)]
    assert {update.old_kind for update in updates} == {None, "K", "O"}
    assert any(UNCHANGED in update.new for update in updates)
    assert {delete.old_kind for delete in every if isinstance(delete, m.Delete)} == {"K", "O"}
    assert {relation.replica_identity for relation in every if isinstance(relation, m.Relation)} == set("dnfi")
    truncates = [message for message in every if isinstance(message, m.Truncate)]
    assert any(t.cascade and t.restart_identity and len(t.relation_ids) == 2 for t in truncates)
    assert {t.namespace for t in every if isinstance(t, m.Type)} == {"public", "pg_catalog", "s2"}
    if read.options["streaming"] is not None:
        aborts = [message for message in every if isinstance(message, m.StreamAbort)]
        assert {abort.xid == abort.subxid for abort in aborts} == {True, False}
        assert {start.first_segment for start in every if isinstance(start, m.StreamStart)} == {True, False}


@EVERY_NAME
def test_a_domain_is_told_by_the_name_of_its_base_type(name):
    """A13: the domain `positive` over int has an OID of its own and the name pg_catalog.int4 (A7:
    '' on the wire).
    """
    told = {message for _, message in recording(name).messages if isinstance(message, m.Type)}
    assert {(t.namespace, t.name) for t in told} == {("public", "mood"), ("pg_catalog", "int4"), ("s2", "point2")}
    assert all(t.type_oid >= 10000 for t in told)


@EVERY_NAME
def test_the_partition_is_told_after_its_root_and_changes_name_the_root(name):
    """A23 with publish_via_partition_root: R of parted, then R of its leaf."""
    every = [message for _, message in recording(name).messages]
    names = [message.name for message in every if isinstance(message, m.Relation)]
    assert names.index("parted") + 1 == names.index("parted_eu")
    leaves = {r.relation_id for r in every if isinstance(r, m.Relation) and r.name.startswith("parted_")}
    assert not {c.relation_id for c in every if isinstance(c, m.Insert | m.Update | m.Delete)} & leaves


@EVERY_NAME
def test_an_origin_has_its_position_only_outside_of_a_stream(name):
    """A15: the same origin, LSN 0 in an S block."""
    read = recording(name)
    in_stream = False
    for _, message in read.messages:
        in_stream = not isinstance(message, m.StreamStop) and (in_stream or isinstance(message, m.StreamStart))
        if isinstance(message, m.Origin):
            assert message.name == "upstream"
            assert (message.origin_lsn == 0) == in_stream
    assert read.counts["O"] == 2


@EVERY_NAME
def test_relations_and_types_travel_without_a_position(name):
    """A34: 0/0 is sent and is no progress; commits carry one."""
    for envelope, message in recording(name).messages:
        assert envelope.start_lsn == envelope.end_lsn
        if isinstance(message, m.Relation | m.Type):
            assert envelope.start_lsn == 0
        if isinstance(message, m.Commit | m.StreamCommit):
            assert envelope.start_lsn > 0


def test_all_nineteen_messages_and_keepalives_were_recorded_on_each_server_that_has_them():
    """A.2; parallel streaming is 16's, the rest is 15's."""
    for major in (15, 16, 18):
        read = [recording(name) for name in NAMES if name.startswith(f"pg{major}-")]
        assert set("".join("".join(each.counts) for each in read)) == set("BCORYIUDTMSEcAbPKrp")
        assert any(isinstance(decode_envelope(data), Keepalive) for each in read for data in each.copy_data)
