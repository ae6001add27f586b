"""A subscription to a publisher without a server: a complete replication system in one Python
process, for tests and tutorials.

::

    Publisher ──records──▶ WalSender ──frames──▶ WalReceiver ──▶ journal ──▶ emulate ──▶ target
    (in memory)            decoding,             the one that `subscriber run` uses
                           pgoutput

Everything after the walsender is what ``subscriber run`` uses, without its processes and without
Spark. So a test that is written with it tests the real receiver, the real journal and the real
apply; and somebody who writes an output plugin sees what a subscriber makes of its output.

There is no initial copy: the target's tables are created by the caller, empty, and the slot begins
before the first record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog import OriginProgress, ensure_catalog
from subscriber.errors import WalRecordError
from subscriber.journal.builder import SegmentBuilder
from subscriber.journal.local_storage import LocalStorage
from subscriber.journal.reader import JournalReader
from subscriber.journal.writer import open_writer
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.output_plugin.context import Slot
from subscriber.output_plugin.plugins.pgoutput import PgOutput
from subscriber.output_plugin.publisher.publisher import Publisher
from subscriber.output_plugin.reorder_settings import ReorderSettings
from subscriber.output_plugin.walsender import WalSender
from subscriber.publication.publishing import Publishing
from subscriber.publisher.slots import StreamOptions, plugin_options
from subscriber.receive.walreceiver import WalReceiver
from subscriber.settings import Settings
from subscriber.stages.emulate import emulate
from subscriber.targets import Target

Streaming = Literal["off", "on", "parallel"]

_SYSTEM: Final = "1"
"""The system identifier of a publisher without a server."""
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
    """A subscription of a target to a :class:`~subscriber.output_plugin.Publisher`.

    ::

        with open_target("sqlite:///copy.db") as target:
            with InProcessSubscription(publisher, target, stream_options(["p"])) as subscription:
                publisher.session().insert("t", a=1)
                subscription.catch_up()

    Args:
        publisher: the publisher. All its records are replicated, also those that exist already;
            they must stay where they are.
        target: the target, with empty tables.
        options: the options of pgoutput, as :func:`stream_options` makes them.
        plugin: the output plugin, by default pgoutput; another one must write the messages of
            pgoutput's protocol.
        folder: the folder of the journal; without it a temporary one.
        settings: the settings of the publisher's server.
        segment_bytes: the memory of the receiver, in bytes.
        on_message: called with the publisher's logical messages.

    Attributes:
        slot: the replication slot, with the confirmed position.
        journal: the journal, to read it.
        applier: applies the journal to the target.
        publishing: publications that the subscriber evaluates, see :mod:`subscriber.publication`.
            It is None, because the plugin filters the changes, and may be set at any time.

    Raises:
        SubscriberError: the plugin refuses the options, or the target has this subscription
            already.
    """

    def __init__(
        self,
        publisher: Publisher,
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
        self.slot = Slot(_SLOT, "pgoutput", two_phase="two_phase" in options)
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
                settings=self._settings,
            )
        )
        self._receiver: WalReceiver[SegmentBuilder] = WalReceiver(
            self._sender,
            writer,
            self._receiver_settings,
            write_abort_info=self._options.get("streaming") == "parallel",
            binary=self._options.get("binary") == "true",
            may_linger=False,
        )

    def reconnect(self) -> None:
        """End the session, and begin one at the confirmed position, as after a broken connection.

        What the receiver had of transactions in progress is lost, and is sent again.
        """
        self._connection.close()
        self._connect()

    def receive(self) -> None:
        """Write all finished transactions to the journal, and confirm them.

        Raises:
            SubscriberError: decoding has failed, the plugin's output is not valid, or the journal
                cannot be written. Nothing of the transaction is in the journal.
        """
        if self._publisher.records is not self._records:
            raise WalRecordError(
                "records that are to be decoded have been taken",
                hint="Do not call Publisher.take() while there is a subscription.",
            )
        self._receiver.run(lambda: self._sender.caught_up)

    def apply(self, max_bytes: int | None = None) -> ApplyResult:
        """Apply what is in the journal and not yet in the target, as one micro-batch.

        Args:
            max_bytes: the size of the batch; without it the batch is everything.

        Raises:
            SubscriberError: as :func:`~subscriber.stages.emulate.emulate`.
        """
        end = self.journal.latest(self._applied, max_bytes)
        result = emulate(self.journal, self.applier, self._applied, end, publishing=self.publishing)
        self._applied = result.progress
        return result

    def catch_up(self) -> ApplyResult:
        """Receive and apply everything.

        Raises:
            SubscriberError: as :meth:`receive` and :meth:`apply`.
        """
        self.receive()
        return self.apply()
