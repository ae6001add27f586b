"""subscription.commands.requirements: what a target cannot do is refused when it is asked for
(refuse_not_guess).
"""

from __future__ import annotations

import re

import pytest

from subscriber.commands.requirements import check_target
from subscriber.errors import NotSupportedError
from subscriber.targets import open_target

SQLITE, DUCKDB, POSTGRESQL = "sqlite:///target.db", "duckdb:///target.duckdb", "postgresql://nobody@nowhere/none"


@pytest.mark.parametrize(
    ("url", "options", "refused"),
    [
        (SQLITE, {"synchronous_commit": "remote_apply"}, "synchronous_commit = remote_apply is not supported"),
        (SQLITE, {"synchronous_commit": "local", "two_phase": True}, None),
        (POSTGRESQL, {"synchronous_commit": "remote_apply", "two_phase": True}, None),
    ],
)
def test_a_target_is_asked_for_what_it_can_do_only(url, options, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_target(url) as target:
        if refused is None:
            check_target(target, options)
            return
        with pytest.raises(NotSupportedError, match=re.escape(refused)) as raised:
            check_target(target, options)
    assert raised.value.hint
