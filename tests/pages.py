"""A reader of the documents: types what a page shows, in its order, and compares what is printed
with what the page shows.

::

    ```sql   ──▶ psql at the publisher            ```sh ──▶ the shell: subscriber, psql, sqlite3, rm
    ```      ──▶ compared with what the commands before it printed, the log, or the status
    ```  with "$ command" lines ──▶ the shell, and compared with the lines below each command

What differs from run to run (LSNs, times, sizes, process IDs) is not compared, and neither is the
width of columns. ``…`` stands for text that the page leaves out. An LSN in a command is the one
that the page has shown before.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.crash.harness import Runner, wait_until

_LSN = r"[0-9A-F]+/[0-9A-F]+"
_VARYING = (
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3}(?:\+00:00| UTC \[\d+\])?",
    _LSN,
    r"\d[\d.,]* B, (?:\d[\d.,]* s|\?)",
    r"\d[\d.,]* (?:bytes|[kM]?B|s)\b",
    r"(?:xid|transaction|process|insert_exists) \d+",
    r"\d+ apply",
    r"on host [^,)]+",
    r"host \"[^\"]*\", port \d+, PostgreSQL [\d.]+",
    r"local\[[^]]*\]",
    "…",
)
_LOGGED = re.compile(_VARYING[0])
_SPLIT = re.compile("|".join(f"({one})" for one in _VARYING))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the text of every code block."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def commands_of(text: str) -> list[list[str]]:
    """The words of each command in the shell blocks of a text."""
    return [words for language, block in blocks(text) if language == "sh" for words in shell_commands(block)]


def shell_commands(text: str) -> list[list[str]]:
    """The words of each command of a shell block; a quoted text may have several lines, and a line
    several commands.
    """
    found: list[list[str]] = []
    pending = ""
    for line in text.splitlines():
        pending += line
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # a quote that is still open
            pending += "\n"
            continue
        pending = ""
        while "&&" in words:
            place = words.index("&&")
            found.append(words[:place])
            words = words[place + 1 :]
        found += [words] if words else []
    assert not pending
    return found


@dataclass
class Reader:
    """Follows pages, with the names of a test's databases in place of those of the pages.

    Attributes:
        runner: carries out ``subscriber``.
        names: a text of the pages → the text for it here.
        psql: the program psql, with the arguments that lead to the publisher's database; empty if
            the pages have no SQL.
        restart_publisher: restarts the publisher.
    """

    runner: Runner
    names: Mapping[str, str]
    psql: Sequence[str] = ()
    restart_publisher: Callable[[], None] | None = None
    _printed: str = field(default="", init=False)
    _lsns: dict[str, str] = field(default_factory=dict, init=False)

    def follow(self, text: str) -> None:
        """Do what a page says, or a part of it."""
        for language, block in blocks(text):
            if language == "sql":
                self._at_publisher(block)
            elif language == "sh":
                self._printed = "".join([self.type(words) for words in shell_commands(block)])
            elif block.startswith("$ "):
                for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                    command, _, expected = shown.partition("\n")
                    self._transcript(command, expected)
            else:
                self._compare(block)

    def type(self, words: Sequence[str]) -> str:
        """Type one command, which must succeed; returns what it prints. ``subscriber run`` goes on
        until the next ``run --once``, before which it is stopped by Ctrl-C.
        """
        here = [self._here(word) for word in words]
        match here:
            case ["export", assignment]:
                variable, _, value = assignment.partition("=")
                self.runner.environment[variable] = value
                return ""
            case ["subscriber", "run"]:
                self.runner.start()
                return ""
            case ["subscriber", "run", "--once"]:
                if self.runner.running:
                    assert self.runner.interrupt() == 0
                answer = self.runner.once()
            case ["subscriber", *arguments]:
                answer = self.runner.call(*arguments)
            case _:
                environment = {**os.environ, "PGUSER": "postgres"}
                answer = subprocess.run(here, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{here}\n{answer.stdout}\n{answer.stderr}\n{self.runner.said()[-3000:]}"
        return answer.stderr + answer.stdout

    def _at_publisher(self, statements: str) -> None:
        answer = subprocess.run(
            [*self.psql, "-v", "ON_ERROR_STOP=1"], input=statements, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, f"{statements}\n{answer.stderr}"
        if "then restart the server" in statements:
            assert self.restart_publisher is not None
            self.restart_publisher()

    def _transcript(self, command: str, expected: str) -> None:
        (words,) = shell_commands(command)
        if "SELECT" not in command or not self._reached(lambda: self._matches(expected, self.type(words))):
            self._check(expected, self.type(words))

    def _compare(self, expected: str) -> None:
        """Compare with what the last commands have printed, or with the log or the status of a
        run.
        """
        if self._matches(expected, self._printed):
            return
        if self.runner.running and self._reached(
            lambda: self._matches(expected, self.runner.said()) or self._matches(expected, self._status())
        ):
            return
        self._check(expected, f"{self._printed}\n--- log\n{self.runner.said()[-3000:]}\n--- status\n{self._status()}")

    def _status(self) -> str:
        answer = self.runner.call("status")
        return answer.stderr + answer.stdout

    @staticmethod
    def _reached(condition: Callable[[], bool]) -> bool:
        try:
            return bool(wait_until(condition, "what the page shows", 40.0))
        except AssertionError:
            return False

    def _check(self, expected: str, printed: str) -> None:
        assert self._matches(expected, printed), f"the page shows:\n{expected}\nprinted was:\n{printed}"

    def _matches(self, expected: str, printed: str) -> bool:
        lines = [_squeezed(line) for line in expected.splitlines()]
        shown = "\n".join(map(_squeezed, printed.splitlines()))
        # Threads write to a log, so its lines may be in another order.
        together = [[line] for line in lines] if all(_LOGGED.match(line) for line in lines) else [lines]
        return all(self._finds(some, shown) for some in together)

    def _finds(self, lines: Sequence[str], shown: str) -> bool:
        pattern = r"\n".join(r"(?:.*\n)*?.*" if line == "…" else _pattern(line) for line in lines)
        found = re.search(rf"^{pattern}$", shown, re.MULTILINE)
        if found is not None:
            self._lsns |= dict(zip(re.findall(_LSN, "\n".join(lines)), found.groups(), strict=True))
        return found is not None

    def _here(self, word: str) -> str:
        for there, here in {**self.names, **self._lsns}.items():
            word = word.replace(there, here)
        return word


def _squeezed(line: str) -> str:
    """A line without the width of its columns."""
    return re.sub(" +", " ", re.sub("-{2,}", "--", line)).strip()


def _pattern(line: str) -> str:
    """What matches a line of a page; each LSN is a group."""
    found, done = [], 0
    for one in _SPLIT.finditer(line):
        found.append(re.escape(line[done : one.start()]))
        varying = _VARYING[(one.lastindex or 1) - 1]
        found.append({_LSN: f"({_LSN})", "…": ".*"}.get(varying, varying))
        done = one.end()
    return "".join([*found, re.escape(line[done:])])
