"""``subscriber publication``: emulated publications."""

from __future__ import annotations

from functools import partial

import click

from subscriber.cli.options import target_option
from subscriber.commands.publication_commands import import_publications
from subscriber.targets import open_target


@click.group("publication")
def command() -> None:
    """Emulated publications: publications that the subscriber evaluates.

    CREATE PUBLICATION in `subscriber sql` creates one; `subscriber publication import` copies one
    from a server.
    """


@command.command("import")
@target_option
@click.option(
    "--connection",
    required=True,
    metavar="CONNINFO",
    help="The server that has the publications, as a libpq connection string.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace publications of the same names in the target; without it they are an error.",
)
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def import_(target: str, connection: str, replace: bool, names: tuple[str, ...]) -> None:
    """Copy publications of a server into the target, as emulated publications.

    Tables, row filters, column lists and options are copied; later changes at the server are not.
    A subscription uses them if it has the option carrier. Prints a NOTICE for each publication. If
    one of them cannot be evaluated exactly, none is stored.
    """
    with open_target(target) as database:
        import_publications(database, connection, names, partial(click.echo, err=True), replace=replace)
