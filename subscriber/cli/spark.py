"""``subscriber spark``: what a Spark application of the user's needs of this package."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from subscriber.base.errors import UsageError
from subscriber.cli.run import stop_on_signals


@click.group("spark")
def command() -> None:
    """Spark applications that read change feeds: an archive for their executors, and a demo."""


@command.command("archive")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def archive(file: Path) -> None:
    """Write this package into FILE, for the executors of a Spark application.

    FILE is a zip, and its name must end in .zip: give it to `spark-submit --py-files`. The
    executors need Python with the dependencies of this package, and not the package itself.
    """
    from subscriber.spark.python_workers import package_archive

    if file.suffix != ".zip":
        raise UsageError(f'"{file}" does not end in .zip', hint="Spark takes no Python package from other files.")
    try:
        package_archive(file)
    except OSError as error:
        raise UsageError(f'could not write "{file}": {error.strerror}') from error


@command.command("demo")
@click.option(
    "--seconds",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.0),
    help="How many seconds orders are processed at the publisher.",
)
@click.option(
    "--folder",
    default=Path("subscriber-demo"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="The folder for the log of Spark, and for the folder lake, which is replaced.",
)
def demo(seconds: float, folder: Path) -> None:
    """Write an embedded PostgreSQL 18 into Delta Lake with Spark, and compare both sides.

    Starts a PostgreSQL server with a shop, receives its changes, and writes two of its tables:
    first a snapshot, then the changes. Another query counts orders while they come. The Delta
    tables are kept; the server is removed. Needs the extras demo and lakehouse, and Java 17 or
    newer.

    The exit code is 0 if all tables are equal, 1 if they differ, and 130 after Ctrl-C.
    """
    from subscriber.testing.lake_demo import demonstrate

    stop = stop_on_signals()
    compared = demonstrate(folder, seconds, stop, click.echo)
    if compared is None:
        click.echo("interrupted: everything is stopped.")
        sys.exit(130)
    click.echo("\nPostgreSQL against Delta Lake, row by row:\n")
    click.echo(f"{'table':<12} {'published rows':>14} {'in Delta Lake':>14}  verdict")
    for one in compared:
        verdict = "equal" if one.is_equal else "DIFFERENT"
        click.echo(f"{one.table:<12} {one.published:>14,} {one.stored:>14,}  {verdict}")
    if not all(one.is_equal for one in compared):
        sys.exit(1)
    python = "python" if shutil.which("python") else sys.executable
    query = f"from deltalake import DeltaTable; print(DeltaTable('{folder}/lake/orders').to_pandas())"
    click.echo(f'\nWhat to try next:\n  {python} -c "{query}"\nRecipes for your own tables: docs/spark-recipes.md')
