"""Runs commands about subscriptions in this process, and returns their messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

from subscriber.base.settings import Settings
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.targets import Target
from tests.conftest import Database

_numbers = count(1)


class Session:
    """Runs commands for one target. ``$pub`` in a command stands for the publisher's connection
    string.
    """

    def __init__(self, target: Target, publisher: Database, journal: str) -> None:
        self.target = target
        self.publisher = publisher
        self.settings = Settings(journal=journal)

    def run(self, sql: str) -> list[str]:
        """Run a command and return its messages."""
        said: list[str] = []
        command = parse(sql.replace("$pub", self.publisher.conninfo))
        assert not isinstance(command, Query)
        run_command(self.target, command, self.settings, said.append)
        return said

    def warnings(self, sql: str) -> list[str]:
        """Run a command and return the warnings about tables, without those about the target's
        durability.
        """
        return [
            text for text in self.run(sql) if text.startswith("WARNING") and ("public." in text or "other." in text)
        ]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.target.begin() as connection:
            if self.target.capabilities.postgresql_text:
                connection.exec_driver_sql("SET LOCAL search_path = public")
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

    def execute(self, *statements: str) -> None:
        with self.target.begin() as connection:
            if self.target.capabilities.postgresql_text:
                connection.exec_driver_sql("SET LOCAL search_path = public")
            for statement in statements:
                connection.exec_driver_sql(statement)


@contextmanager
def a_role(database: Database, attributes: str) -> Iterator[str]:
    name = f"role_{os.getpid()}_{next(_numbers)}"
    database.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x' {attributes}")
    try:
        yield name
    finally:
        database.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def with_role(database: Database, role: str) -> str:
    return psycopg.conninfo.make_conninfo(database.conninfo, user=role, password="x")
