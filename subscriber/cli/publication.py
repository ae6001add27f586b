"""``subscriber publication``: emulated publications."""

from __future__ import annotations

from functools import partial

import click

from subscriber.cli.options import target_option
from subscriber.commands.import_publications import import_publications
from subscriber.targets import open_target


@click.group("publication")
def command() -> None:
    """Publications that the subscriber evaluates itself; CREATE PUBLICATION in `subscriber sql`
    makes them, too.
    """


@command.command("import")
@target_option
@click.option("--connection", required=True, metavar="CONNINFO", help="The server, as a libpq connection string.")
@click.option("--replace", is_flag=True, help="Replace publications that the target has already.")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def import_(target: str, connection: str, replace: bool, names: tuple[str, ...]) -> None:
    """Store publications of a server in the target, filters and all, so that the subscriber can do
    the filtering.
    """
    with open_target(target) as database:
        import_publications(database, connection, names, partial(click.echo, err=True), replace=replace)
