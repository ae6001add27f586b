"""What each host of CONNECTION says: hosts that do not answer. The others are asked by
tests/conformance/test_failover_readiness.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.publisher.failover import read_failover_servers


def test_each_host_that_does_not_answer_has_its_reason_and_no_password():
    servers = read_failover_servers("host=/nowhere,/absent port=1,2 password=secret dbname=d", "tests", "s")
    assert [server.place for server in servers] == ["/nowhere:1", "/absent:2"]
    for server in servers:
        assert "No such file or directory" in str(server.error)
        assert "secret" not in str(server.error)


def test_a_string_that_is_no_connection_string_is_refused():
    with pytest.raises(UsageError, match="invalid connection string syntax"):
        read_failover_servers("nonsense", "tests", "s")
