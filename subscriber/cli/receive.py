"""``subscriber receive``: receives a slot into a journal, without a target."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from subscriber.base.settings import Settings
from subscriber.base.without_pandas import use_arrow_without_pandas
from subscriber.cli.options import HttpAddress, RunLog, http_options, run_log_options
from subscriber.cli.run import ending_in_time, stop_on_signals, warn_of_open_journals

if TYPE_CHECKING:
    from subscriber.operate.service_manager import ServiceManager
    from subscriber.worker.slot_receiver import SlotReceiver

logger = logging.getLogger(__name__)

_UNFINISHED: Final = "the command was stopped before everything was received"
_ALIVE_SECONDS: Final = 60.0
"""How long the receiver's loop may take: it may wait for a slow disk."""


@click.command("receive")
@click.option(
    "--connection",
    "conninfo",
    envvar="SUBSCRIBER_PUBLISHER",
    required=True,
    metavar="CONNINFO",
    show_envvar=True,
    help="The publisher, as a libpq connection string.",
)
@click.option("--slot", required=True, metavar="NAME", help="The logical replication slot of the publisher.")
@click.option(
    "--publication",
    "publications",
    required=True,
    multiple=True,
    metavar="NAME",
    help="A publication of the publisher; repeat the option for more.",
)
@click.option(
    "--create-slot", "create", is_flag=True, help="Create the slot if there is neither the slot nor its journal."
)
@click.option(
    "--journal",
    metavar="PATH|URL",
    help="The folder below which the journal is (default: $SUBSCRIBER_JOURNAL, else the user's data folder).",
)
@click.option(
    "--once", is_flag=True, help="Receive everything the publisher had committed when the command started, then exit."
)
@click.option("--standby", is_flag=True, help="If another receiver has the slot, wait until it ends, and take over.")
@run_log_options
@http_options
def command(
    journal: str | None,
    once: bool,
    standby: bool,
    http: HttpAddress | None,
    log: RunLog,
    **source: Any,
) -> None:
    """Receive a replication slot into a journal, without a target.

    Spark reads the journal (`spark.readStream.format("pgoutput")`), and needs no `subscriber run`.
    What was received is confirmed to the publisher when it is durable in the journal. It stays
    there until every consumer has passed it, and everything stays while there is no consumer:
    `subscriber journal ls` shows the consumers.

    A slot that a subscription uses is refused: `subscriber run` receives it, and Spark can read the
    journal of the run.

    The log is on standard error. Ctrl-C, SIGTERM and the end of the terminal stop the command. A
    transaction that was not received completely is then sent again at the next start.

    The exit code is 0 after a normal stop, and 1 if changes are lost or an option is wrong. Other
    errors are tried again. With --once it is 0 only if everything is durable that was committed at
    the publisher when the command began.
    """
    use_arrow_without_pandas()
    stop = stop_on_signals()
    settings = Settings.from_environment()
    settings = replace(settings, journal=journal or settings.journal)
    with log.counting(), ending_in_time(stop, threading.Event(), once=once, unfinished=_UNFINISHED):
        # Imported here, because `receive --help` needs none of it.
        from subscriber.operate.service_manager import ServiceManager
        from subscriber.worker.slot_receiver import SlotReceiver, SlotSource

        warn_of_open_journals(settings)
        receiver = SlotReceiver(SlotSource(**source), settings, once=once, standby=standby)
        manager = ServiceManager()
        with contextlib.closing(manager), _served(receiver, http):
            done = receiver.run(stop, lambda: _tell(manager, receiver))
    if not done:
        logger.error(_UNFINISHED)
        sys.exit(1)


def _served(receiver: SlotReceiver, http: HttpAddress | None) -> AbstractContextManager[object]:
    if http is None:
        return contextlib.nullcontext()
    from subscriber.operate.serve_receiver import serve_receiver

    return serve_receiver(receiver, *http)


def _tell(manager: ServiceManager, receiver: SlotReceiver) -> None:
    """Tell the service manager, unless the receiver hangs."""
    if time.monotonic() - receiver.looped_at <= _ALIVE_SECONDS:
        manager.tell(lambda: receiver.is_ready, lambda: receiver.state)
