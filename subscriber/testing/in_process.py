"""A subscription to a publisher without a server: a complete replication system in one Python
process, for tests and tutorials.

::

    MemoryDatabase ──records──▶ WalSender ──frames──▶ WalReceiver ──▶ journal ──▶ emulate ──▶ target
    (in memory)            decoding,             the one that `subscriber run` uses
                           pgoutput

There is no initial copy: the caller creates the target's tables, empty, and the slot begins before
the first record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.apply.message_listener import MessageListener
from subscriber.base.errors import WalRecordError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.plugins.pgoutput import PgOutput
from subscriber.postgres.logical_decoding.reorder_txn import ReorderSettings
from subscriber.postgres.logical_decoding.walsender import WalSender
from subscriber.postgres.publication.publishing import Publishing
from subscriber.publisher.slots import StreamOptions, plugin_options
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.journal.writer import open_writer
from subscriber.stream.receive.walreceiver import WalReceiver
from subscriber.targets import Target
from subscriber.testing.emulate import emulate

Streaming = Literal["off", "on", "parallel"]

_SYSTEM: Final = "1"
_SLOT: Final = "in_process"


def stream_options(
    publications: Sequence[str],
    *,
    proto_version: int = 4,
    streaming: Streaming = "off",
    binary: bool = False,
    two_phase: bool = False,
    messages: bool = False,
    origin: Literal["any", "none"] = "any",
) -> dict[str, str]:
    """The options of pgoutput, as a subscriber gives them to START_REPLICATION (rule A33).

    >>> stream_options(["p"], streaming="parallel")["streaming"]
    'parallel'

    ``origin`` is left out at its default, so that older versions of pgoutput can be asked.
    """
    given = StreamOptions(
        tuple(publications),
        streaming=streaming,
        two_phase=two_phase,
        binary=binary,
        messages=messages,
        origin=origin,
    )
    return plugin_options(given, proto_version, with_origin=origin != "any")


class InProcessSubscription:
    """A subscription of a target to a
    :class:`~subscriber.postgres.logical_decoding.MemoryDatabase`.

    ::

        with open_target("sqlite:///copy.db") as target:
            with InProcessSubscription(publisher, target, stream_options(["p"])) as subscription:
                publisher.session().insert("t", a=1)
                subscription.catch_up()

    All records of the publisher are replicated, also those that exist already; they must stay where
    they are. Another ``plugin`` must write the messages of pgoutput's protocol, too.
    ``segment_bytes`` is the memory of the receiver. ``publishing`` are publications that the
    subscriber evaluates (:mod:`subscriber.postgres.publication`); it is None, because the plugin
    filters the changes, and may be set at any time.
    """

    def __init__(
        self,
        publisher: MemoryDatabase,
        target: Target,
        options: Mapping[str, str | None],
        *,
        plugin: object | None = None,
        folder: Path | None = None,
        settings: ReorderSettings | None = None,
        segment_bytes: int = 8 << 20,
        on_message: MessageListener | None = None,
    ) -> None:
        self._publisher = publisher
        self._records = publisher.records
        self._options = dict(options)
        self._plugin = PgOutput() if plugin is None else plugin
        self._settings = settings
        self.publishing: Publishing | None = None
        self._receiver_settings = Settings(journal="", segment_bytes=segment_bytes, wal_receiver_timeout=0)
        self.slot = ReplicationSlot(_SLOT, "pgoutput", two_phase="two_phase" in options)
        self.applier = ExactApplier(target, subscription=_SLOT, subid=1, on_message=on_message)
        self._applied = INVALID_LSN
        with ExitStack() as resources:
            if folder is None:
                folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-journal-")))
            self._storage = LocalStorage(folder)
            self.journal = JournalReader(self._storage)
            self._connection = resources.enter_context(ExitStack())
            self._connect()  # first: if it fails, nothing is in the target
            ensure_catalog(target.engine)
            with target.begin() as connection:
                OriginProgress(1).create(connection, INVALID_LSN)
            self._resources = resources.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, traceback)

    def close(self) -> None:
        """End the session, and remove the journal if it is a temporary one."""
        self._resources.close()

    @property
    def sender(self) -> WalSender:
        """The walsender of the current connection."""
        return self._sender

    def _connect(self) -> None:
        writer = self._connection.enter_context(
            open_writer(
                self._storage,
                system_identifier=_SYSTEM,
                slot=_SLOT,
                confirmed_lsn=LSN(self.slot.confirmed_flush),
                applied_lsn=self._applied,
            )
        )
        self._sender = self._connection.enter_context(
            WalSender(
                self._records,
                self._plugin,
                self.slot,
                self._options,
                catalog=self._publisher.first_catalog,
                settings=replace(self._settings or ReorderSettings(), did_abort=self._publisher.did_abort),
            )
        )
        self._receiver: WalReceiver = WalReceiver(
            self._sender,
            writer,
            self._receiver_settings,
            write_abort_info=self._options.get("streaming") == "parallel",
            binary=self._options.get("binary") == "true",
            may_linger=False,
        )

    def reconnect(self) -> None:
        """Begin a session at the confirmed position; what was in progress is sent again."""
        self._connection.close()
        self._connect()

    def receive(self) -> None:
        """Write finished transactions to the journal, whole or not at all, and confirm them."""
        if self._publisher.records is not self._records:
            raise WalRecordError(
                "records that are to be decoded have been taken",
                hint="Do not call MemoryDatabase.take() while there is a subscription.",
            )
        self._receiver.run(lambda: self._sender.caught_up)

    def apply(self, max_bytes: int | None = None) -> ApplyResult:
        """Apply what the target does not have yet, as one batch of at most ``max_bytes``."""
        end = self.journal.latest(self._applied, max_bytes)
        result = emulate(self.journal, self.applier, self._applied, end, publishing=self.publishing)
        self._applied = result.progress
        return result

    def catch_up(self) -> ApplyResult:
        """Receive and apply everything."""
        self.receive()
        return self.apply()
