from __future__ import annotations

import json

import pytest

from subscriber.cli.run import message_listener
from subscriber.errors import UsageError


def test_a_listener_is_named_as_python_finds_it(tmp_path, monkeypatch):
    (tmp_path / "somebodys.py").write_text("class Here:\n    @staticmethod\n    def hear(message): return message\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert message_listener("json:dumps") is json.dumps
    assert message_listener("somebodys:Here.hear")("x") == "x"  # type: ignore[arg-type]  # any message will do


@pytest.mark.parametrize("place", ["nowhere.to.be.found:f", "json:absent", "json", "json:", ":dumps", "json:__name__"])
def test_what_cannot_be_called_is_refused(place):
    with pytest.raises(UsageError) as raised:
        message_listener(place)
    assert f'message listener "{place}"' in raised.value.message
