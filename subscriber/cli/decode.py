"""``subscriber decode``: a journal in the words of an output plugin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.cli.journal import journal_option, the_journal
from subscriber.postgres.logical_decoding import BinaryChange, SlotFunctions, load_output_plugin
from subscriber.postgres.publication.publication_statements import split_identifiers
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import open_storage
from subscriber.stream.replay_journal import ReplayedWal, read_slot, write_slot


def _position(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_lsn(text)
    except UsageError as error:
        raise click.BadParameter(error.message) from error


def _pairs(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not (name and equals):
            raise click.BadParameter(f'"{text}" is not an option: write it as NAME=VALUE.')
    return [(name, value) for name, _, value in pairs]


@click.command("decode")
@journal_option
@click.option(
    "--plugin",
    required=True,
    metavar="NAME|MODULE:CLASS",
    help="The output plugin: test_decoding, pgoutput, or a class of your own.",
)
@click.option(
    "--option", "options", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="An option for the plugin."
)
@click.option(
    "--upto-lsn", callback=_position, metavar="LSN", help="Stop at this LSN. Later transactions are not printed."
)
@click.option(
    "--upto-nchanges",
    type=int,
    metavar="NUMBER",
    help="Stop after the transaction that reaches this number of changes.",
)
@click.option(
    "--slot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Continue where the last command with this file has stopped. The file is created if it does not exist.",
)
@click.option("--peek", is_flag=True, help="Do not move the position in the file of --slot.")
@click.option("--json", "as_json", is_flag=True, help="Print each change as a JSON object.")
def command(
    journal: str | None,
    plugin: str,
    options: list[tuple[str, str]],
    upto_lsn: int | None,
    upto_nchanges: int | None,
    slot: Path | None,
    *,
    peek: bool,
    as_json: bool,
) -> None:
    """Print what a journal contains as an output plugin writes it.

    Each line is a change as pg_logical_slot_get_changes returns it: the LSN, the ID of the
    transaction, and the output of the plugin. Binary output is printed in hexadecimal digits. The
    lines contain the values of rows.

    The plugin is test_decoding, pgoutput, or MODULE:CLASS. The module is searched where Python
    finds modules, and then in the current folder. Its code is run.

    The journal is not changed. What pgoutput has not sent is not in it, and notices on standard
    error say what the plugin would have seen at the publisher.
    """
    with _wrong_usage(), _current_folder():
        made = load_output_plugin(plugin)
        reader = JournalReader(open_storage(the_journal(journal)))
        control = reader.control()
        kept = read_slot(slot, control, plugin)
        if kept.confirmed_flush:
            reader.entries(LSN(kept.confirmed_flush))  # or an error: the journal no longer has them
        wal = ReplayedWal(reader, _publications(plugin, options))
        functions = SlotFunctions(made, kept, wal.recorded)
        arguments = [text for option in options for text in option]
        notices = _Notices(wal.missing)
        for change in functions.iterate_binary_changes(upto_lsn, upto_nchanges, *arguments, peek=peek):
            notices.print_new()
            click.echo(_printed(change, textual=functions.output_type == "textual", as_json=as_json))
        notices.print_new()
        if slot is not None and not peek:
            write_slot(slot, control, kept)


@contextmanager
def _wrong_usage() -> Iterator[None]:
    """Exit with 2 if the arguments are wrong, also those that only the plugin can judge."""
    try:
        yield
    except UsageError as error:
        click.echo(error.report(), err=True)
        sys.exit(2)


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules be imported from the current folder.

    It is searched last, so that no file in it replaces a module that this program uses; and not at
    all if Python was told not to (``-P``, ``PYTHONSAFEPATH``).
    """
    before = list(sys.path)
    if not sys.flags.safe_path and "" not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _publications(plugin: str, options: list[tuple[str, str]]) -> list[str]:
    """The publications that pgoutput looks for. In a journal each publishes everything."""
    if plugin != "pgoutput":
        return []
    return [name for option, text in options if option == "publication_names" for name in split_identifiers(text) or []]


class _Notices:
    """Prints the sentences of a growing list, each once."""

    def __init__(self, sentences: list[str]) -> None:
        self._sentences = sentences
        self._printed = 0

    def print_new(self) -> None:
        for sentence in self._sentences[self._printed :]:
            click.echo(f"NOTICE:  {sentence}", err=True)
        self._printed = len(self._sentences)


def _printed(change: BinaryChange, *, textual: bool, as_json: bool) -> str:
    data = change.data.decode() if textual else f"\\x{change.data.hex()}"
    lsn = format_lsn(change.lsn)
    if as_json:
        return json.dumps({"lsn": lsn, "xid": change.xid, "data": data}, ensure_ascii=False)
    first, *rest = data.split("\n")
    # As psql, a line that goes on ends with a plus.
    lines = [f"{lsn:<12} | {change.xid:>8} | {first}", *(f"{'':12} | {'':8} | {line}" for line in rest)]
    return "+\n".join(lines)
