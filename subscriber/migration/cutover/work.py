"""What a step of a cutover works with."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from subscriber.catalog.cutovers import ASKED, Cutover
from subscriber.errors import UsageError
from subscriber.lsn import LSN, format_lsn
from subscriber.migration.cutover.world import World
from subscriber.sql.keywords import quote_identifier

POLL_SECONDS: Final = 0.1
_TIMEOUT_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 1.0
"""The time between two barriers before which nothing may come, where no fence holds writers."""
FENCED_QUIET_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverOptions:
    """The options of a cutover.

    Attributes:
        timeout: the longest time that one step waits, in seconds.
        verify: whether publisher and target are compared.
        reverse: whether a way back is prepared.
        fence: whether the publisher's database is fenced.
        terminate: whether sessions that the fence does not hold are ended.
        accept_missing: whether missing objects, and sequences that cannot be set, are accepted.
        discard_writes: whether a switch is abandoned although the target may have been written to.
        reverse_connection: how the old publisher's server reaches the target; None for the target's
            own URL.
    """

    timeout: float = _TIMEOUT_SECONDS
    verify: bool = False
    reverse: bool = False
    fence: bool = False
    terminate: bool = False
    accept_missing: bool = False
    discard_writes: bool = False
    reverse_connection: str | None = field(default=None, repr=False)  # may hold a password

    def as_json(self) -> dict[str, Any]:
        """The options without the connection string."""
        names = ("timeout", "verify", "reverse", "fence", "terminate", "accept_missing", "discard_writes")
        return {name: getattr(self, name) for name in names}

    @property
    def words(self) -> list[str]:
        """The names of the options that only a cutover and its dry run have, as they are given."""
        names = ("fence", "terminate", "verify", "reverse", "reverse_connection", "accept_missing")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]

    def as_words(self) -> str:
        """The options of a cutover on the command line, without the connection string."""
        words = [f"{word} …" if word == "--reverse-connection" else word for word in self.words]
        if self.timeout != _TIMEOUT_SECONDS:
            words.append(f"--timeout {self.timeout:g}s")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a step is not clean.

    Attributes:
        message: what was found.
        hint: what to do next.
        details: names of what was found.
    """

    message: str
    hint: str
    details: tuple[str, ...] = ()

    def error(self) -> UsageError:
        """The error that ends the command."""
        return UsageError(
            self.message, sqlstate="55000", detail="; ".join(_first(self.details)) or None, hint=self.hint
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step has done.

    Attributes:
        text: one line.
        details: further lines for the report.
        was_done: False if there was nothing to do.
    """

    text: str
    details: tuple[str, ...] = ()
    was_done: bool = True


@dataclass(slots=True)
class Work:
    """A cutover in progress.

    Attributes:
        world: publisher and target.
        options: the command's options.
        cutover: the row in the catalog, as it was last written.
        tell: called with what the command waits for.
        goes_back: whether the cutover is being abandoned.
        quiet_from: a barrier after which nothing came when the writes were last watched.
        clock: the monotonic clock.
        sleep: waits for seconds.
    """

    world: World
    options: CutoverOptions
    cutover: Cutover
    tell: Callable[[str], None] = lambda _: None
    goes_back: bool = False
    quiet_from: LSN | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @property
    def name_in_sql(self) -> str:
        """The subscription's name in a statement to run."""
        return quote_identifier(self.world.name)

    @property
    def name_in_shell(self) -> str:
        """The subscription's name in a command to run."""
        return shlex.quote(self.world.name)

    def save(self, *, enabled: bool | None = None, **changes: Any) -> None:
        """Store changes of the row."""
        changed = replace(self.cutover, **changes)
        self.world.write(changed, enabled=enabled)
        self.cutover = changed

    def remember(self, key: str, value: Any) -> None:
        """Store what has to be undone; None if it is undone."""
        options = {name: kept for name, kept in self.cutover.options.items() if name != key}
        if value is not None:
            options[key] = value
        self.save(options=options)

    def note(self, step: str, value: Any) -> None:
        """Store what a step has found."""
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
        """Wait until ``ready`` returns True.

        Args:
            what: the beginning of a message: "stopping the writes".
            ready: asked again and again.
            waiting_for: what the wait is for, in words; asked while it lasts.

        Raises:
            UsageError: 57014, the time limit has passed.
        """
        deadline = self.clock() + self.options.timeout
        told: list[str] = []
        told_at = self.clock() + 2.0
        while not ready():
            if self.clock() >= deadline:
                raise self._late(what, waiting_for())
            if self.clock() >= told_at:
                found = waiting_for()
                if found and found != told:
                    self.tell(f"{what} waits for {'; '.join(_first(tuple(found)))}")
                    told = found
                told_at = self.clock() + 2.0
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
        """Whether a transaction of the publications was received after a position."""
        return self.world.position().last > lsn

    def drain(self, barrier: LSN) -> None:
        """Wait until the target has everything up to a barrier.

        Raises:
            UsageError: 57014, the time limit has passed.
        """

        def behind() -> list[str]:
            found = self.world.position()
            lag = f"the target to get from {format_lsn(found.reached)} to {format_lsn(barrier)}"
            return [f"{lag} (`subscriber status` shows the lag and errors)"]

        self.wait(
            f"applying everything up to the barrier at {format_lsn(barrier)}",
            lambda: self.world.position().reached >= barrier,
            behind,
        )


def names_of(names: Sequence[str]) -> str:
    """The first of some names, and the number of the others."""
    return ", ".join(_first(tuple(names)))


def _first(names: tuple[str, ...]) -> list[str]:
    more = len(names) - 5
    return list(names) if more <= 0 else [*names[:5], f"and {more} more"]
