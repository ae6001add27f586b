"""The HTTP server of ``subscriber run --http``: uvicorn in a thread of its own.

uvicorn installs signal handlers only in the main thread. At the end, open streams get a second.
The server listens on a loopback address, unless a token protects it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subscriber.base.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

logger = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 1
_END_SECONDS: Final = 3.0
_LEAST_TOKEN: Final = 16


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9187`` or ``[::1]:9187``; UsageError if it is none."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f'invalid address "{text}"', hint="Write a host and a port, such as 127.0.0.1:9187.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: str | None, host: str) -> str | None:
    """The token in a file; UsageError if there must be one, or if it is too short to protect."""
    if file is None:
        if not is_loopback(host):
            raise UsageError(
                f'the server may listen on "{host}" only with a token',
                detail="Other machines may reach this address.",
                hint="Write a random token into a file, and name it: --http-token-file FILE. Or use 127.0.0.1.",
            )
        return None
    try:
        token = Path(file).read_text().strip()
    except OSError as error:
        raise UsageError(f'the token cannot be read from "{file}": {error.strerror}') from None
    if len(token) < _LEAST_TOKEN or not token.isascii():
        raise UsageError(
            f'the token in "{file}" is too short, or not ASCII',
            hint=f"It has at least {_LEAST_TOKEN} characters. Make one: openssl rand -hex 32",
        )
    return token


def _is_failure(record: logging.LogRecord) -> bool:
    """False for what uvicorn logs when it closes a page that is open at the end of the run."""
    failure = record.exc_info[1] if record.exc_info else None
    return not (isinstance(failure, asyncio.CancelledError) or str(record.msg).startswith("Cancel %s running task"))


@contextlib.contextmanager
def serving(app: ASGIApp, host: str, port: int) -> Iterator[int]:
    """Serve while the block runs; gives the port, which is chosen by the system for port 0."""
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f'cannot listen on "{host}", port {port}: {error.strerror}', hint="Choose another port, or stop who has it."
        ) from None
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="http server", daemon=True)
    thread.start()
    deadline = time.monotonic() + _END_SECONDS
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    number = int(listening.getsockname()[1])
    logger.info("metrics and health: http://%s:%d/", f"[{host}]" if ":" in host else host, number)
    try:
        yield number
    finally:
        server.should_exit = True
        thread.join(_END_SECONDS)
        listening.close()
