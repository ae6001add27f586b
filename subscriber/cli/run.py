"""``subscriber run``: the workers of all enabled subscriptions."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
from operator import attrgetter
from pathlib import Path
from types import FrameType
from typing import Any

import click

from subscriber.apply.logical_messages import MessageListener
from subscriber.cli.live import live_table
from subscriber.cli.options import log_to_stderr, target_option
from subscriber.errors import UsageError
from subscriber.pipeline.on_spark import spark_pipeline
from subscriber.pipeline.session import spark_session
from subscriber.settings import Settings, default_journal
from subscriber.subscription import catalog
from subscriber.subscription.supervisor import Supervisor
from subscriber.target import open_target

logger = logging.getLogger(__name__)


@click.command("run")
@target_option
@click.option("--once", is_flag=True, help="Stop when everything committed at the publisher by now is in the target.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option(
    "--on-message",
    metavar="MODULE:FUNCTION",
    help="Call a Python function with every message of pg_logical_emit_message.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log debug messages too.")
def command(target: str, once: bool, master: str, on_message: str | None, verbose: bool) -> None:
    """Run the workers of all enabled subscriptions of a target.

    Stops in order on Ctrl-C, SIGTERM or the end of the terminal; what is not committed in the target comes again at the next start.
    """
    log_to_stderr(verbose=verbose)
    listener = None if on_message is None else message_listener(on_message)
    settings = Settings.from_environment()
    stop = stop_on_signals()
    with open_target(target) as database, database.run_lock():
        with database.reporting():
            catalog.ensure_catalog(database.engine)
        logger.info('starting Spark on master "%s"', master)  # a cluster that does not answer is waited for
        with spark_session(master, spark_log(settings)) as spark:
            supervisor = Supervisor(database, spark_pipeline(spark), settings, once=once, on_message=listener)
            with live_table(supervisor) as show:
                well = supervisor.run(stop, show)
    if not well:
        sys.exit(1)


def message_listener(place: str) -> MessageListener:
    """The function that ``package.module:function`` names.

    Raises:
        UsageError: there is none.
    """
    module, _, path = place.partition(":")
    try:
        found: Any = attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f'message listener "{place}" cannot be imported: {error}',
            hint="Write package.module:function, of a module on Python's path (PYTHONPATH).",
        ) from None
    if not callable(found):
        raise UsageError(f'message listener "{place}" is not a function')
    listener: MessageListener = found
    return listener


def spark_log(settings: Settings) -> Path:
    """Beside the journals, or in the user's data folder when they are elsewhere."""
    journal = default_journal(os.environ) if "://" in settings.journal else settings.journal
    return Path(journal).parent / "spark.log"


def stop_on_signals() -> threading.Event:
    """An event that SIGINT, SIGTERM and the end of the terminal (SIGHUP, unless nohup has it ignored) set.

    A second one interrupts at once, but for SIGHUP, which a terminal and its shell both send.
    """
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number != signal.SIGHUP:
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, on_signal)
    return stop
