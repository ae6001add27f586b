"""``subscriber spark``: what a Spark application of the user's needs of this package."""

from __future__ import annotations

from pathlib import Path

import click

from subscriber.base.errors import UsageError


@click.group("spark")
def command() -> None:
    """Prepare Spark applications that read change feeds."""


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
