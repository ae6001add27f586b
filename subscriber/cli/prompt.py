r"""The prompt of ``subscriber sql``: it behaves as psql's prompt does, and uses prompt_toolkit.

::

    shop.db=> SELECT *
    shop.db-> FROM orders WHERE customer = 'O
    shop.db'> ''Hara';

Enter runs what is typed if every statement in it has ended. Otherwise it starts a new line. So a
statement of several lines is edited, recalled and kept in the history as a whole.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from subscriber import __version__
from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.utf8 import invalid_utf8
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.publications import list_publications
from subscriber.catalog.subscription_options import OPTIONS
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.cli.backslash import WELCOME_HELP
from subscriber.cli.secrets import without_secrets
from subscriber.postgres.publication.publication_statements import PUBLICATION_OPTIONS
from subscriber.postgres.sql.statements import NOTHING_OPEN, Statement, cut, open_in
from subscriber.targets import Target

_QUOTED: Final = frozenset("'\"$*")
"""The states of :func:`open_in` in which a backslash is an ordinary character."""

_KEYWORDS: Final = (
    "CREATE", "ALTER", "DROP", "SUBSCRIPTION", "CONNECTION", "PUBLICATION", "WITH", "SET", "ADD", "REFRESH", "SEQUENCES",
    "RECREATE", "SLOT", "TRUNCATE", "RESTART", "CONTINUE", "IDENTITY", "ENABLE", "DISABLE", "SKIP", "RENAME", "TO", "IF", "EXISTS", "CASCADE", "RESTRICT", "SELECT", "FROM", "WHERE",
    "FOR", "ALL", "TABLES", "EXCEPT", "TABLE", "ONLY", "IN", "SCHEMA", "CURRENT_SCHEMA",
)  # fmt: skip


def prompt_name(target: Target) -> str:
    """The name of the target's database, or of its file."""
    return Path(target.url.database or "").name or target.url.get_backend_name()


def prompt_after(name: str, text: str) -> str:
    """The prompt of the line after ``text``, as in psql: ``name=>``, ``name->``, ``name'>`` …"""
    return f"{name}{open_in(text)}> "


def is_finished(text: str) -> bool:
    if is_leaving(text) or _word(text) == "help":
        return True
    return open_in(text) == NOTHING_OPEN


def is_leaving(text: str) -> bool:
    r"""Whether it ends the prompt: ``\q`` in the last line, or ``quit`` or ``exit`` alone."""
    before, _, line = text.rpartition("\n")
    word = line.strip()
    return (word == r"\q" and open_in(before) not in _QUOTED) or _word(text) in ("quit", "exit")


def _word(text: str) -> str:
    return text.strip().removesuffix(";").rstrip().lower()


def open_session(target: Target, history: History) -> PromptSession[str]:
    name = prompt_name(target)
    session: PromptSession[str] = PromptSession(
        prompt_after(name, ""),
        multiline=True,
        prompt_continuation=lambda _width, number, wrapped: "" if wrapped else continuation(number),
        history=history,
        key_bindings=_key_bindings(),
        completer=WordCompleter(lambda: list(_completions(target)), ignore_case=True),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
    )

    def continuation(number: int) -> str:
        return prompt_after(name, "\n".join(session.default_buffer.document.lines[:number]))

    return session


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        if is_finished(event.current_buffer.text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.newline(copy_margin=False)

    @bindings.add(
        "c-d", filter=has_focus(DEFAULT_BUFFER) & Condition(lambda: not get_app().current_buffer.document.current_line)
    )
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError)

    return bindings


def _completions(target: Target) -> Iterator[str]:
    yield from _KEYWORDS
    yield from OPTIONS
    yield from PUBLICATION_OPTIONS
    yield from CATALOG.tables
    try:
        with target.reporting(), target.engine.connect() as connection:
            yield from (subscription.name for subscription in list_subscriptions(connection))
            yield from (publication.name for publication in list_publications(connection))
    except SubscriberError:
        pass  # there is no catalog or no connection: a completion does not report errors


def converse(session: PromptSession[str], run: Callable[[Statement], str]) -> None:
    r"""Read and run statements until Control-D or ``\q``. Errors are printed, and it goes on."""
    click.echo(f'subscriber ({__version__})\nType "help" for help.\n')
    while True:
        try:
            text = session.prompt()
            if is_leaving(text):
                return
            _answer(text, run)
        except KeyboardInterrupt:
            continue
        except EOFError:
            click.echo(r"\q")
            return


def _answer(text: str, run: Callable[[Statement], str]) -> None:
    if _word(text) == "help":
        click.echo(WELCOME_HELP)
        return
    wrong = invalid_utf8(text)
    if wrong is not None:
        click.echo(UsageError(wrong, sqlstate="22021").report(), err=True)
        return
    try:
        for statement in cut(text):  # an open quote is an error before any statement runs
            with _printing_errors():
                click.echo(run(statement))
    except KeyboardInterrupt:
        click.echo("ERROR:  canceling statement due to user request", err=True)


@contextmanager
def _printing_errors() -> Iterator[None]:
    try:
        yield
    except SubscriberError as error:
        click.echo(error.report(), err=True)


# Its history: a file that only its owner can read, without passwords -----------------------------


def history_file(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The file in the user's state folder or, on macOS, application data folder."""
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        state = home / "Library" / "Application Support"
    else:
        xdg = Path(environment.get("XDG_STATE_HOME") or "")
        state = xdg if xdg.is_absolute() else home / ".local" / "state"
    return state / "subscriber" / "sql_history"


def open_history(file: Path) -> History:
    """The history in ``file``; if it cannot be written, only until the prompt ends."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return _PrivateHistory(str(file))


class _PrivateHistory(FileHistory):
    """Stores without secrets what it recalls, until the prompt ends, as it was typed."""

    def store_string(self, string: str) -> None:
        kept = without_secrets(string)
        if kept is not None:
            try:
                super().store_string(kept)
            except OSError:
                pass  # the command runs even if the disk is full
