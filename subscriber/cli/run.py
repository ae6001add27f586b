"""``subscriber run``: runs the workers of all enabled subscriptions."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from subscriber.base.errors import AlreadyRunning, SubscriberError, UsageError
from subscriber.base.imported_functions import import_function
from subscriber.base.settings import Settings, default_journal
from subscriber.base.signals import set_by_signals
from subscriber.cli.options import HttpAddress, RunLog, http_options, run_log_options, target_option
from subscriber.stream.journal.storage import open_to_others

if TYPE_CHECKING:
    from subscriber.apply.message_listener import MessageListener
    from subscriber.targets import Target
    from subscriber.worker.supervisor import Supervisor

logger = logging.getLogger(__name__)

END_SECONDS: Final = 13.0
"""How long the run may take to end in order: systemd waits 90 s, but people do not."""
UNFINISHED: Final = "the run was stopped before every subscription had caught up"
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
    help="Apply everything the publisher had committed when the command started, then exit.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="If another run has the target's run lock, wait until it ends, and take over.",
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
@click.option(
    "--http-show-values",
    is_flag=True,
    help="Let the dashboard show values of rows: those of received changes and of conflicts.",
)
@click.option(
    "--http-admin",
    is_flag=True,
    help="Let the dashboard enable, disable and refresh subscriptions and skip transactions; needs --http-token-file.",
)
@run_log_options
@http_options
def command(
    target: str,
    once: bool,
    standby: bool,
    master: str,
    on_message: str | None,
    http: HttpAddress | None,
    log: RunLog,
    **pages: bool,
) -> None:
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

    With --standby, a second run on another machine waits for the run lock of the target, and goes
    on where the first one ended. Both need the same journal, on a shared volume or at a URL. A run
    that was taken over while it was stopped or cut off ends with 1.

    The exit code is 0 after a normal stop, and 1 if a subscription has an error that is not
    resolved. With --once it is 0 only if at least one subscription is enabled, every table of the
    enabled subscriptions is ready, and everything is applied that was committed at the publisher
    when the command began; otherwise it is 1, and standard error names what is left, and why.
    """
    stop, working = stop_on_signals(), threading.Event()
    with log.counting(), ending_in_time(stop, working, once=once):
        listener = None if on_message is None else message_listener(on_message)
        settings = Settings.from_environment()
        extras = _served(http, pages, settings, Extras(listener, standby))
        if not _run(target, master, settings, extras, stop, working, once=once):
            sys.exit(1)


@dataclass(frozen=True, slots=True)
class Extras:
    """What a run does besides: it calls ``on_message``, may be a ``standby`` until it gets the run
    lock, and enters ``shown`` with its target and supervisor, ``shown_waiting`` while it waits for
    the lock.
    """

    on_message: MessageListener | None = None
    standby: bool = False
    shown: Callable[[Target, Supervisor], AbstractContextManager[object]] = lambda *_: contextlib.nullcontext()
    shown_waiting: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext


def _served(http: HttpAddress | None, pages: Mapping[str, bool], settings: Settings, extras: Extras) -> Extras:
    """Add the HTTP server; wrong options are refused before anything is started."""
    if http is None:
        for option, is_given in pages.items():
            if is_given:
                raise UsageError(f"--{option.replace('_', '-')} is for --http")
        return extras
    from subscriber.operate.page_sources import PageSources
    from subscriber.operate.serve_run import serve_run, serve_standby

    address, token = http
    if pages["http_admin"] and token is None:
        raise UsageError(
            "--http-admin needs a token",
            detail="Everybody on this machine could give commands to the subscriptions.",
            hint="Write a random token into a file, and name it: --http-token-file FILE.",
        )

    def shown(target: Target, supervisor: Supervisor) -> AbstractContextManager[object]:
        sources = PageSources(target, settings, show_values=pages["http_show_values"], admin=pages["http_admin"])
        return serve_run(supervisor, sources, address=address, token=token)

    return replace(extras, shown=shown, shown_waiting=partial(serve_standby, address, token))


def _run(
    target: str,
    master: str,
    settings: Settings,
    extras: Extras,
    stop: threading.Event,
    working: threading.Event,
    *,
    once: bool,
) -> bool:
    """Work until all is done or ``stop`` is set, and set ``working`` when the workers start."""
    # Imported here, because `run --help` needs none of it.
    from subscriber.catalog.catalog_upgrade import ensure_catalog
    from subscriber.spark.session import starting_spark
    from subscriber.targets import open_target
    from subscriber.worker import RECEIVER_MODULE
    from subscriber.worker.take_over import StopWhenTakenOver, holding_run_lock

    warn_of_open_journals(settings)
    lock_waits = extras.shown_waiting if extras.standby else None
    with open_target(target) as database, holding_run_lock(database, stop, lock_waits):
        if stop.is_set():
            return _interrupted(once=once)
        logger.info('starting Spark on master "%s"', master)
        try:
            with starting_spark(master, spark_log(settings), [RECEIVER_MODULE]) as spark:
                with database.reporting():
                    ensure_catalog(database.engine)
                for lost in database.transactions.durability_warnings():
                    logger.warning("%(error)s\nHINT:  %(hint)s", {"error": lost.message, "hint": lost.hint})
                from subscriber.cli.live import live_table
                from subscriber.operate.service_manager import ServiceManager
                from subscriber.spark.spark_functions import functions_on
                from subscriber.worker.heartbeat import beating
                from subscriber.worker.read_status import subscription_statuses
                from subscriber.worker.subscription_status import keeping_status_file
                from subscriber.worker.supervisor import Supervisor

                if stop.is_set():
                    return _interrupted(once=once)
                working.set()
                supervisor = Supervisor(
                    database, functions_on(spark), settings, once=once, on_message=extras.on_message
                )
                manager = ServiceManager()
                statuses = partial(subscription_statuses, database, settings)
                deposed = StopWhenTakenOver(stop)
                with (
                    keeping_status_file(database.status_file, statuses, lambda: supervisor.busy_since),
                    beating(
                        database, lambda: supervisor.busy_since, partial(supervisor.snapshots, look=False), deposed.by
                    ),
                    extras.shown(database, supervisor),
                    contextlib.closing(manager),
                    live_table(supervisor) as show,
                ):

                    def on_tick(current: Supervisor) -> None:
                        manager.tick(current)
                        if show is not None:
                            show(current)

                    done = supervisor.run(stop, on_tick)
                deposed.check()
                return done
        except AlreadyRunning:
            raise
        except SubscriberError as error:
            if not stop.is_set():
                raise
            # systemd, for instance, stops Spark's Java process at the same time as this process.
            logger.info("stopped; Spark had already ended: %s", error.message)
            return _interrupted(once=once)


def _interrupted(*, once: bool, unfinished: str = UNFINISHED) -> bool:
    """Whether a stop before any work is a success: with ``once``, nothing has caught up."""
    if once:
        logger.error(unfinished)
    return not once


@contextlib.contextmanager
def ending_in_time(
    stop: threading.Event, working: threading.Event, *, once: bool = False, unfinished: str = UNFINISHED
) -> Iterator[None]:
    """End the process :data:`END_SECONDS` after ``stop`` was set, even if the code in the block
    hangs.

    The target then rolls back its open transactions. Before ``working`` is set no transaction is
    open, and the exit code is 0: on a busy machine, Spark may need as long to start. With ``once``
    the exit code is 1, because nothing has caught up, and ``unfinished`` is logged. After an
    interrupt the process also ends at once, without Python's finalization, which would abort a
    thread in the code of a database driver.
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
        _leave(1 if once else 0, partial(_interrupted, once=once, unfinished=unfinished))

    threading.Thread(target=watch, name="end in time", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        _leave(130)
    finally:
        ended.set()


def _leave(code: int, say: Callable[[], object] = lambda: None) -> None:
    """End the process at once. Its child processes notice the end of their pipes."""

    def finish() -> None:
        say()
        logging.shutdown()

    saying = threading.Thread(target=finish, name="last words", daemon=True)
    saying.start()
    saying.join(_SAY_SECONDS)
    os._exit(code)


def warn_of_open_journals(settings: Settings) -> None:
    """Warn of each journal that others can read: earlier versions created such ones."""
    for folder in open_to_others(settings.journal):
        logger.warning(
            'group or others have access to the journal "%s", which contains rows of the publisher; remove the access with: chmod -R go= %s',
            folder,
            shlex.quote(folder),
        )


def message_listener(place: str) -> MessageListener:
    """The function with the name ``package.module:function``."""
    listener: MessageListener = import_function(place, "message listener")
    return listener


def spark_log(settings: Settings) -> Path:
    """Spark's log file: beside the journals, or in the user's data folder if they are at a URL."""
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
