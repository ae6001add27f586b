"""The program that gives the password of a connection to a PostgreSQL server, for secrets that
change and tokens that expire (``SUBSCRIBER_PASSWORD_COMMAND``).

The shell runs it, as PostgreSQL runs ``ssl_passphrase_command``, for each connection, so that a new
secret takes effect at the next one. The command comes from the environment only: whoever may write
connection strings to the target's catalog must not be able to run programs on this machine. For the
same reason its values are variables and never a part of the command.

*Rejected:* passwords kept for some minutes. They would be wrong in the moment of a rotation. A slow
program can keep its token itself; it knows when the token expires.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from subscriber.base.errors import SubscriberError
from subscriber.base.settings import PASSWORD_COMMAND, Settings

PASSWORD_SECONDS: Final = 30.0
"""How long the program may take. Programs of the cloud providers take a few seconds."""

_VARIABLES: Final = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "dbname": "PGDATABASE",
    "service": "PGSERVICE",
}
"""libpq's variables for the connection parameters that the program may need."""


def command_password(connection: Mapping[str, object], unavailable: type[SubscriberError]) -> str | None:
    """The password that the program gives now for a connection with these libpq parameters.

    None: the connection has a password or names a password file, or the program gives none, so
    libpq looks in the other places. If the program fails, does not end in time, or prints bytes
    that are no text, ``unavailable`` is raised, without the program's outputs, which may contain a
    secret.
    """
    command = Settings.from_environment().password_command
    if not command or connection.get("password") or connection.get("passfile"):
        return None
    given = {_VARIABLES[name]: str(value) for name, value in connection.items() if name in _VARIABLES and value}

    def failed(reason: str) -> SubscriberError:
        return unavailable(
            f'could not get a password by "{PASSWORD_COMMAND}": {reason}',
            hint=f"Run its command by hand, with {', '.join(given) or 'no variables'} in the environment. What it"
            " prints is not shown here, because it may contain a secret.",
        )

    return _output(command, given, failed) or None


def _output(command: str, variables: Mapping[str, str], failed: Callable[[str], SubscriberError]) -> str:
    output = None
    # The program's processes are a group of their own, so that all of them can be ended.
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        try:
            output, _ = program.communicate(timeout=PASSWORD_SECONDS)
        except subprocess.TimeoutExpired:
            raise failed(f"the program did not end within {PASSWORD_SECONDS:g} s") from None
        finally:
            if output is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
    if program.returncode < 0:
        raise failed(f"the program was terminated by signal {-program.returncode}")
    if program.returncode > 0:
        raise failed(f"the program exited with exit code {program.returncode}")
    try:
        password = output.decode()
    except UnicodeDecodeError:
        raise failed("the output of the program is not UTF-8") from None
    if "\0" in password:
        raise failed("the output of the program has a zero byte")
    return password.removesuffix("\n").removesuffix("\r")
