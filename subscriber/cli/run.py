"""``subscriber run``: runs the workers of all enabled subscriptions."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from subscriber.cli.options import log_to_stderr, target_option
from subscriber.errors import SubscriberError, UsageError
from subscriber.journal.storage import open_to_others
from subscriber.settings import Settings, default_journal
from subscriber.signals import set_by_signals

if TYPE_CHECKING:
    from subscriber.apply.logical_messages import MessageListener

logger = logging.getLogger(__name__)

END_SECONDS: Final = 13.0
"""Seconds that the run has to end in order.

Programs that kill a process that does not end usually wait longer (systemd waits 90 s), but people
do not.
"""
_POLL_SECONDS: Final = 1.0
_SAY_SECONDS: Final = 2.0
_NOT_ENDED: Final = (
    "some workers have not ended within %.0f s: the process ends now, and the target rolls back its open transactions"
)


@click.command("run")
@target_option
@click.option(
    "--once",
    is_flag=True,
    help="Exit when everything is applied that was committed at the publisher when the command began.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="The Spark master: local[*], spark://host:port, k8s://... or yarn.",
)
@click.option(
    "--on-message",
    metavar="MODULE:FUNCTION",
    help="A Python function to call with each logical message (pg_logical_emit_message).",
)
@click.option("--verbose", "-v", is_flag=True, help="Also log debug messages.")
def command(target: str, once: bool, master: str, on_message: str | None, verbose: bool) -> None:
    """Replicate: run the workers of all enabled subscriptions of a target.

    Each worker receives the stream of a replication slot, copies the tables of new subscriptions,
    and applies changes to the target. Runs until it is stopped, or until every subscription has
    stopped because of an error. A subscription that another process creates, alters or drops is
    noticed at once, or within about a second if that process runs on another machine. A target can
    have one `subscriber run` at a time. Needs Java 17 or newer for Spark.

    The log is on standard error; on a terminal, a live table shows the progress below it. Ctrl-C,
    SIGTERM and the end of the terminal stop the command. A transaction that is not committed in the
    target is then rolled back, and applied again at the next start. A second Ctrl-C ends the
    command at once.

    The exit code is 0 after a normal stop, and 1 if a subscription has an error that is not
    resolved. With --once it is 0 only if at least one subscription is enabled, every table of the
    enabled subscriptions is ready, and everything is applied that was committed at the publisher
    when the command began; otherwise it is 1, and standard error names what is left, and why.
    """
    log_to_stderr(verbose=verbose)
    stop, working = stop_on_signals(), threading.Event()
    with ending_in_time(stop, working, once=once):
        listener = None if on_message is None else message_listener(on_message)
        if not _run(target, master, Settings.from_environment(), listener, stop, working, once=once):
            sys.exit(1)


def _run(
    target: str,
    master: str,
    settings: Settings,
    listener: MessageListener | None,
    stop: threading.Event,
    working: threading.Event,
    *,
    once: bool,
) -> bool:
    """Work until everything is done, or until ``stop`` is set. ``working`` is set when the workers
    start; Spark may take longer.

    Returns:
        Whether the run was successful, as :meth:`Supervisor.run` returns it.
    """
    # Imported here, because `run --help` needs none of it.
    from subscriber import catalog
    from subscriber.pipeline.session import starting_spark
    from subscriber.targets import open_target

    warn_of_open_journals(settings)
    with open_target(target) as database, database.running():
        if stop.is_set():
            return _interrupted(once=once)
        logger.info('starting Spark on master "%s"', master)
        try:
            with starting_spark(master, spark_log(settings)) as spark:
                with database.reporting():
                    catalog.ensure_catalog(database.engine)
                for lost in database.transactions.durability_warnings():
                    logger.warning("%s. HINT:  %s", lost.message, lost.hint)
                from subscriber.cli.live import live_table
                from subscriber.pipeline.on_spark import spark_pipeline
                from subscriber.runtime.heartbeat import beating
                from subscriber.runtime.read_status import subscription_statuses
                from subscriber.runtime.status_file import keeping_status_file
                from subscriber.runtime.supervisor import Supervisor

                if stop.is_set():
                    return _interrupted(once=once)
                working.set()
                supervisor = Supervisor(database, spark_pipeline(spark), settings, once=once, on_message=listener)
                statuses = partial(subscription_statuses, database, settings)
                with (
                    keeping_status_file(database.status_file, statuses, lambda: supervisor.busy_since),
                    beating(database, lambda: supervisor.busy_since, partial(supervisor.snapshots, look=False)),
                    live_table(supervisor) as show,
                ):
                    return supervisor.run(stop, show)
        except SubscriberError as error:
            if not stop.is_set():
                raise
            # systemd, for instance, stops Spark's Java process at the same time as this process.
            logger.info("stopped; Spark had already ended: %s", error.message)
            return _interrupted(once=once)


def _interrupted(*, once: bool) -> bool:
    """Whether a run that was stopped before it began to work was successful.

    With ``once`` it was not, because nothing has caught up.
    """
    if once:
        logger.error("the run was stopped before every subscription had caught up")
    return not once


@contextlib.contextmanager
def ending_in_time(stop: threading.Event, working: threading.Event, *, once: bool = False) -> Iterator[None]:
    """End the process :data:`END_SECONDS` after ``stop`` was set, even if the code in the block
    hangs.

    The target then rolls back its open transactions. Before ``working`` is set no transaction is
    open, and the exit code is 0: on a busy machine, Spark may need as long to start. With ``once``
    the exit code is 1, because nothing has caught up. After an interrupt the process also ends at
    once, without Python's finalization: a thread may be running code of a database driver, and
    finalization would abort that code.
    """
    ended = threading.Event()

    def watch() -> None:
        while not stop.wait(_POLL_SECONDS):
            if ended.is_set():
                return
        if ended.wait(END_SECONDS):
            return
        if working.is_set():
            _leave(1, partial(logger.error, _NOT_ENDED, END_SECONDS))
        _leave(1 if once else 0, partial(_interrupted, once=once))

    threading.Thread(target=watch, name="end in time", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        _leave(130)
    finally:
        ended.set()


def _leave(code: int, say: Callable[[], object] = lambda: None) -> None:
    """End the process at once. Its child processes notice the end of their pipes.

    Args:
        code: the exit code.
        say: logs why. Where nobody reads standard error, this waits forever, and the process does
            not wait for it.
    """

    def finish() -> None:
        say()
        logging.shutdown()

    saying = threading.Thread(target=finish, name="last words", daemon=True)
    saying.start()
    saying.join(_SAY_SECONDS)
    os._exit(code)


def warn_of_open_journals(settings: Settings) -> None:
    """Log a warning for each journal that is open to the group or to others.

    A journal contains the publisher's rows, and earlier versions created it with such permissions.

    Raises:
        JournalUnavailable: the journals cannot be read now.
    """
    for folder in open_to_others(settings.journal):
        logger.warning(
            'group or others have access to the journal "%s", which contains rows of the publisher; remove the access with: chmod -R go= %s',
            folder,
            shlex.quote(folder),
        )


def message_listener(place: str) -> MessageListener:
    """The function with the name ``package.module:function``.

    Raises:
        UsageError: there is no such function.
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
    """The log file of Spark: beside the journals, or in the user's data folder if the journals are
    at a URL.
    """
    journal = default_journal(os.environ) if "://" in settings.journal else settings.journal
    return Path(journal).parent / "spark.log"


def stop_on_signals() -> threading.Event:
    """An event that is set by SIGINT, SIGTERM and SIGHUP, unless SIGHUP is ignored (nohup).

    A second SIGINT or SIGTERM interrupts at once. A second SIGHUP does not, because a terminal and
    its shell both send one.
    """
    stop = threading.Event()

    def interrupt(number: int) -> None:
        if number != signal.SIGHUP:
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    set_by_signals(stop, numbers, interrupt)
    return stop
