"""The plugin pgoutput over the records of a Publisher, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from subscriber.output_plugin import CollectingWriter, LogicalDecoding, Publisher, ReorderSettings, Slot
from subscriber.output_plugin.context import OutputWriter
from subscriber.output_plugin.plugins.pgoutput import PgOutput
from subscriber.protocol import Message, decode
from subscriber.protocol import messages as m


def run(publisher: Publisher, writer: OutputWriter, *, work_mem: int = 0, **options: str) -> None:
    """Decode the records of a publisher with pgoutput.

    A session that streams does so at every change, unless ``work_mem`` is given.
    """
    given = {"proto_version": "4", "publication_names": "p", **options}
    immediate = given.get("streaming", "off") != "off" and not work_mem
    settings = ReorderSettings(
        logical_decoding_work_mem=work_mem or 64 << 20,
        debug_logical_replication_streaming="immediate" if immediate else "buffered",
    )
    slot = Slot("s", "pgoutput")
    with LogicalDecoding(PgOutput(), slot, writer, given, settings=settings) as decoding:
        for record in publisher.records:
            decoding.process(record)


def messages(publisher: Publisher, **options: Any) -> list[Message]:
    """What pgoutput sends for the records of a publisher."""
    writer = CollectingWriter()
    run(publisher, writer, **options)
    found: list[Message] = []
    in_stream = False
    for output in writer.outputs:
        parallel = options.get("streaming") == "parallel"
        message = decode(output.data, in_stream=in_stream, write_abort_info=parallel)
        in_stream = isinstance(message, m.StreamStart) or (in_stream and not isinstance(message, m.StreamStop))
        found.append(message)
    return found


def words(found: Sequence[Message]) -> list[str]:
    """Messages as words: ``R t``, ``I 1 x``, ``U K 1 null: 2 x``."""
    names: dict[int, str] = {}
    return [_word(message, names) for message in found]


def sent(publisher: Publisher, **options: Any) -> list[str]:
    """What pgoutput sends, as words."""
    return words(messages(publisher, **options))


def changes(publisher: Publisher, **options: Any) -> list[str]:
    """The changes that pgoutput sends, without transactions and descriptions."""
    return [word for word in sent(publisher, **options) if word[0] in "IUDT"]


def _word(message: Message, names: dict[int, str]) -> str:
    match message:
        case m.Relation():
            names[message.relation_id] = message.name
            columns = ",".join(("*" if one.is_identity else "") + one.name for one in message.columns)
            word = f"R {message.name} {message.replica_identity} {columns}"
        case m.Type():
            word = f"Y {message.namespace}.{message.name}"
        case m.Insert():
            word = f"I {names[message.relation_id]} {_values(message.new)}"
        case m.Update():
            old = "" if message.old is None else f"{message.old_kind} {_values(message.old)}: "
            word = f"U {names[message.relation_id]} {old}{_values(message.new)}"
        case m.Delete():
            word = f"D {names[message.relation_id]} {message.old_kind} {_values(message.old)}"
        case m.Truncate():
            flags = " cascade" * message.cascade + " restart" * message.restart_identity
            word = f"T {','.join(names[oid] for oid in message.relation_ids)}{flags}"
        case m.LogicalMessage():
            word = (
                f"M {'' if message.transactional else 'non-'}transactional {message.prefix} {message.content.decode()}"
            )
        case m.Origin():
            word = f"O {message.name} {message.origin_lsn}"
        case m.StreamStart():
            word = f"S {message.xid}" + " first" * message.first_segment
        case m.StreamAbort():
            word = f"A {message.xid} {message.subxid}"
        case _:
            word = message.type_byte
    xid = getattr(message, "xid", None)
    changed = isinstance(message, m.Relation | m.Type | m.Insert | m.Update | m.Delete | m.Truncate | m.LogicalMessage)
    return f"{word} @{xid}" if changed and xid is not None else word


def _values(row: Sequence[m.ColumnValue]) -> str:
    return " ".join(one.name.lower() if isinstance(one, m.Absence) else one.data.decode() for one in row)
