"""The addresses of the HTTP server, asked over a socket."""

from __future__ import annotations

import base64
import http.client
import time
from collections.abc import Callable
from typing import Any

import pytest

from subscriber.base.errors import ConflictError, UsageError
from subscriber.base.retry import FailedAttempts
from subscriber.operate.http_server import is_loopback, parse_address, read_token, serving
from subscriber.operate.web_app import HEADERS, Served, standby_app, web_app
from tests.observations import observation, run_of

TOKEN = "0123456789abcdef"


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()


@pytest.fixture
def run():
    """What is observed; a test may replace it."""
    return [run_of(observation(), looped_at=time.monotonic())]


@pytest.fixture
def serve(run):
    """A function that serves, and returns another one that asks."""
    blocks = []

    def begin(*, token: str | None = None, unready: str | None = None, standby: bool = False) -> Callable[..., Answer]:
        app = standby_app(token) if standby else web_app(Served(lambda: run[-1], lambda: unready, token=token))
        block = serving(app, "127.0.0.1", 0)
        blocks.append(block)
        port = block.__enter__()

        def ask(path: str, method: str = "GET", **headers: Any) -> Answer:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request(method, path, headers={name.title(): value for name, value in headers.items()})
                return Answer(connection.getresponse())
            finally:
                connection.close()

        return ask

    yield begin
    for block in blocks:
        block.__exit__(None, None, None)


def test_prometheus_is_served(serve):
    answer = serve()("/metrics")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'subscriber_subscription_state{state="streaming",subscription="s"} 1.0' in answer.text


def test_livez_is_about_the_loop_alone(serve, run):
    ask = serve(unready="the catalog was not read yet")
    run.append(run_of(observation(worker={"stopped": True}), looped_at=time.monotonic()))
    assert ask("/livez").status == 200
    run.append(run_of(observation(), looped_at=time.monotonic() - 61))
    assert ask("/livez").status == 503


def test_readyz_is_about_the_workers_alone(serve):
    assert serve()("/readyz").status == 200
    assert serve(unready="no worker yet: s")("/readyz").status == 503


def test_a_standby_is_alive_and_not_ready(serve):
    """A probe must not end a run that waits for the run lock."""
    ask = serve(standby=True)
    assert [ask(path).status for path in ("/livez", "/readyz", "/health", "/")] == [200, 503, 503, 404]


def test_prometheus_finds_a_standby_up_which_has_no_subscription(serve):
    """Otherwise the alert of a run that does not answer would fire for every standby."""
    scraped = serve(standby=True)("/metrics")
    assert scraped.status == 200
    assert "process_resident_memory_bytes" in scraped.text
    assert "subscription=" not in scraped.text


def test_health_has_limits_and_reasons(serve, run):
    ask = serve()
    assert ask("/health?lag=60s&errors=0").status == 200
    failing = FailedAttempts(ConflictError("duplicate key"), 3, 3)
    run.append(run_of(observation(worker={"applying": failing})))
    refused = ask("/health?lag=60s&errors=0")
    assert (refused.status, refused.text) == (503, "CRITICAL\ns: 3 failed attempts, 0 are allowed\n")
    assert ask("/health?errors=5").status == 200
    assert ask("/health?errors=x").status == 400
    assert ask("/health?leg=60s").status == 400


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/health", "/nothing"])
def test_every_answer_has_the_headers_and_none_of_cors(serve, path):
    answer = serve()(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert answer.headers["server"] is None
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(serve, method):
    assert serve()("/health", method).status == 405


def test_without_a_token_only_loopback_names_are_answered(serve):
    """A page of another origin may reach this address by a name of its own (DNS rebinding)."""
    ask = serve()
    assert ask("/metrics", host="evil.example:9187").status == 421
    assert ask("/metrics", host="localhost:9187").status == 200
    assert ask("/metrics", host="[::1]:9187").status == 200


def test_with_a_token_every_address_but_the_probes_asks_for_it(serve):
    ask = serve(token=TOKEN)
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for path in ("/metrics", "/health", "/nothing"):
        assert ask(path).status == 401
        assert ask(path, authorization=f"Bearer {TOKEN}x").status == 401
        assert ask(path, authorization="Basic !").status == 401
    assert ask("/metrics", authorization=f"Bearer {TOKEN}").status == 200
    assert ask("/metrics", authorization=f"Basic {basic}", host="db.example").status == 200
    assert "Basic" in ask("/metrics").headers["WWW-Authenticate"]
    assert ask("/livez").status == 200


def test_an_address_beyond_loopback_needs_a_token_of_some_length(tmp_path):
    with pytest.raises(UsageError, match="only with a token"):
        read_token(None, "0.0.0.0")
    assert read_token(None, "127.0.0.1") is None
    file = tmp_path / "token"
    file.write_text("short\n")
    with pytest.raises(UsageError, match="too short"):
        read_token(str(file), "0.0.0.0")
    file.write_text(f"{TOKEN}\n")
    assert read_token(str(file), "0.0.0.0") == TOKEN
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(str(tmp_path / "nothing"), "127.0.0.1")


def test_addresses_are_host_and_port():
    assert parse_address("127.0.0.1:9187") == ("127.0.0.1", 9187)
    assert parse_address("[::1]:0") == ("::1", 0)
    for wrong in ("9187", ":9187", "host:", "host:70000", "host:x"):
        with pytest.raises(UsageError):
            parse_address(wrong)
    assert [is_loopback(host) for host in ("localhost", "127.9.9.9", "::1", "0.0.0.0", "evil")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_port_that_is_taken_is_an_error_with_its_number(serve):
    serve()
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match=str(number)),
            serving(web_app(Served(run_of, lambda: None)), "127.0.0.1", number),
        ):
            pass
