"""What a step of a cutover works with."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.cutovers import ASKED, Cutover
from subscriber.migrate.cutover.cutover_servers import CutoverServers
from subscriber.postgres.sql.quoting import quote_identifier

POLL_SECONDS: Final = 0.1
_TIMEOUT_SECONDS: Final = 60.0
ACCEPT: Final = "--accept-missing"
QUIET_SECONDS: Final = 1.0
"""The time between two barriers before which nothing may come, where no fence holds writers."""
FENCED_QUIET_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverOptions:
    """``timeout`` limits the waits of one step (seconds); ``accept_missing`` has names and kinds;
    ``reverse_connection`` leads the old publisher's server to the target.
    """

    timeout: float = _TIMEOUT_SECONDS
    verify: bool = False
    reverse: bool = False
    fence: bool = False
    terminate: bool = False
    accept_missing: tuple[str, ...] = ()
    discard_writes: bool = False
    reverse_connection: str | None = field(default=None, repr=False)  # may hold a password

    def as_json(self) -> dict[str, Any]:
        names = ("timeout", "verify", "reverse", "fence", "terminate", "accept_missing", "discard_writes")
        return {name: getattr(self, name) for name in names}

    @property
    def words(self) -> list[str]:
        """The names of the options that only a cutover and its dry run have, as they are given."""
        names = ("fence", "terminate", "verify", "reverse", "reverse_connection", "accept_missing")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]

    def accepts(self, kind: str, name: str) -> bool:
        return not {kind, name, f"{kind} {name}"}.isdisjoint(self.accept_missing)

    def as_words(self) -> str:
        accepted = " ".join(f"{ACCEPT} {shlex.quote(name)}" for name in self.accept_missing)
        written = {"--reverse-connection": "--reverse-connection …", ACCEPT: accepted}
        words = [written.get(word, word) for word in self.words]
        if self.timeout != _TIMEOUT_SECONDS:
            words.append(f"--timeout {self.timeout:g}s")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class StepRefusal:
    message: str
    hint: str
    details: tuple[str, ...] = ()

    def error(self) -> UsageError:
        return UsageError(
            self.message, sqlstate="55000", detail="; ".join(_first(self.details)) or None, hint=self.hint
        )


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step has done, in one line; ``details`` are for the report."""

    text: str
    details: tuple[str, ...] = ()
    was_done: bool = True


@dataclass(slots=True)
class Work:
    """``cutover`` is the catalog's row as written; nothing came after ``quiet_from``, a barrier."""

    servers: CutoverServers
    options: CutoverOptions
    cutover: Cutover
    notify: Callable[[str], None] = lambda _: None
    goes_back: bool = False
    quiet_from: LSN | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @property
    def name_in_sql(self) -> str:
        return quote_identifier(self.servers.name)

    @property
    def name_in_shell(self) -> str:
        return shlex.quote(self.servers.name)

    def save(self, *, enabled: bool | None = None, **changes: Any) -> None:
        changed = replace(self.cutover, **changes)
        self.servers.write(changed, enabled=enabled)
        self.cutover = changed

    def remember(self, key: str, value: Any) -> None:
        """Store what has to be undone; None if it is undone."""
        options = {name: kept for name, kept in self.cutover.options.items() if name != key}
        if value is not None:
            options[key] = value
        self.save(options=options)

    def record(self, step: str, value: Any) -> None:
        self.save(findings={**self.cutover.findings, step: value})

    def ask(self, options: CutoverOptions) -> None:
        """Store the options of the command, for whoever goes on with it."""
        self.remember(ASKED, options.as_words())

    @property
    def command(self) -> str:
        """The command that begins or goes on, with its own options or those that were stored."""
        words = self.options.as_words() or self.cutover.options.get(ASKED)
        return " ".join(word for word in ("subscriber cutover", self.name_in_shell, words) if word)

    @property
    def fence(self) -> dict[str, Any] | None:
        """The fence that this cutover has set: ``database``, ``former``, ``since``."""
        kept = self.cutover.options.get("fence")
        return None if kept is None else dict(kept)

    def wait(self, what: str, ready: Callable[[], bool], waiting_for: Callable[[], list[str]]) -> None:
        """Wait until ``ready`` returns True, and say for what; 57014 after the time limit."""
        deadline = self.clock() + self.options.timeout
        notified: list[str] = []
        notify_at = self.clock() + 2.0
        while not ready():
            if self.clock() >= deadline:
                raise self._late(what, waiting_for())
            if self.clock() >= notify_at:
                found = waiting_for()
                if found and found != notified:
                    self.notify(f"{what} waits for {'; '.join(_first(tuple(found)))}")
                    notified = found
                notify_at = self.clock() + 2.0
            self.sleep(POLL_SECONDS)

    def _late(self, what: str, found: list[str]) -> UsageError:
        abandon = ""
        if self.cutover.has_effects and not self.goes_back:
            fence = ", which lifts the fence, too" if self.fence else ""
            abandon = f"; or go back: subscriber cutover {self.name_in_shell} --abandon{fence}"
        elif self.goes_back:
            abandon = (
                "; or give up what was written to the target: subscriber cutover"
                f" {self.name_in_shell} --abandon --discard-writes"
            )
        return UsageError(
            f"{what} has not ended within {self.options.timeout:g} s",
            sqlstate="57014",
            detail=f"It waits for: {'; '.join(_first(tuple(found)))}." if found else None,
            hint=f"Put that right and run the same command again, or with a longer --timeout{abandon}.",
        )

    def came_after(self, lsn: LSN) -> bool:
        return self.servers.position().last > lsn

    def drain(self, barrier: LSN) -> None:
        """Wait until the target has everything up to a barrier; 57014 after the time limit."""

        def behind() -> list[str]:
            found = self.servers.position()
            lag = f"the target to get from {format_lsn(found.position)} to {format_lsn(barrier)}"
            return [f"{lag} (`subscriber status` shows the lag and errors)"]

        self.wait(
            f"applying everything up to the barrier at {format_lsn(barrier)}",
            lambda: self.servers.position().position >= barrier,
            behind,
        )


def names_of(names: Sequence[str]) -> str:
    return ", ".join(_first(tuple(names)))


def _first(names: tuple[str, ...]) -> list[str]:
    more = len(names) - 5
    return list(names) if more <= 0 else [*names[:5], f"and {more} more"]
