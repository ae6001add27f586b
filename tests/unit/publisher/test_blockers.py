"""The walsender of a slot in words. The other queries need sessions that wait
(tests/conformance/test_waiting.py).
"""

from __future__ import annotations

from subscriber.publisher.fence.open_transactions import receiver_of
from tests.scripted_server import ScriptedServer


def test_the_receiver_of_a_slot_is_told_by_its_session():
    row = {
        "pid": 4711, "usename": "ann", "datname": "shop", "application_name": "mysub",
        "backend_start": "2026-01-01 00:00:00+00", "state": "active",
    }  # fmt: skip
    server = ScriptedServer({"s.slot_name": [row]})
    assert receiver_of(server.connection, "slot_1") == [
        'process 4711 (user "ann", database "shop", application "mysub", active, since 2026-01-01 00:00:00+00)'
    ]
    assert server.asked[0].parameters == {"slot": "slot_1"}


def test_a_slot_that_nobody_streams_from_has_no_receiver():
    assert receiver_of(ScriptedServer({"s.slot_name": []}).connection, "slot_1") == []
