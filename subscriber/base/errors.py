"""Every error that this package raises, in one tree.

::

    SubscriberError
    ├── UsageError                 what was asked for cannot be done as asked
    │   ├── SQLSyntaxError         42601   the command does not parse
    │   ├── NotSupportedError      0A000   the command is valid, but is refused, with the reason
    │   └── ScenarioError          42601   a scenario file is not a valid session (file and line)
    ├── StatementTimeout           57014   a scenario's statement did not end in time
    ├── ProtocolError              08P01   bytes that are not pgoutput (byte offset, message type)         (stops)
    ├── PublisherError                     the publisher's server
    │   ├── PublisherUnavailable   08006   no connection, or it was lost                 (transient)
    │   ├── SlotInUse              55006   another receiver streams from the slot        (transient)
    │   ├── PublisherTablesOutdated 55000  the publisher's tables have changed since they were read (transient)
    │   ├── SlotLost               55000   the slot is missing or invalidated, or WAL that it needs was removed (stops)
    │   ├── HistoryDiverged        55000   the publisher was restored, or another server was promoted: its WAL differs from the WAL that was received (stops)
    │   ├── OtherSystem            55000   the publisher is not the system from which changes were received (stops)
    │   ├── BinaryFormNotRead      0A000   the stream will send a type whose binary format this package cannot read: request text format
    │   └── PublisherNotReady      55000   a setting, role, publication or plugin is wrong
    ├── JournalError
    │   ├── JournalUnavailable     53100   the journal cannot be written now (disk full, ...)  (transient)
    │   ├── JournalGap             55000   journal and slot, or journal and target, disagree                   (stops)
    │   └── JournalCorrupt         XX001   a segment does not have the content that was written                (stops)
    ├── TargetError                        the database that changes are written to
    │   ├── ColumnsToAdd           55000   a table must be altered before the batch can be applied
    │   ├── TargetUnavailable      08006   no connection, locked, or the connection was lost  (transient)
    │   └── AlreadyRunning         55006   another `subscriber run` has the run lock of this target
    ├── PipelineError              58000   the Spark job failed for a reason within Spark   (transient)
    ├── Stopped                    57014   the operation was stopped on request: nothing has failed  (transient)
    ├── PublicationsChanged        40001   an emulated publication was altered in the meantime  (transient)
    ├── DataException              22000   a text is not a value of a type, or the type cannot store a result
    │   └── RowFilterError         22000   a row filter cannot be evaluated for a row
    ├── MessageListenerError       38000   the user's function for logical messages raised an exception
    ├── TransformError             38000   the user's function of the option transform failed
    ├── OutputPluginError          XX000   an output plugin lacks a callback that is always required, or wrote where it must not
    │   ├── OutputCallbackMissing  55000   streaming or two-phase decoding requires a callback that the plugin does not have
    │   ├── OutputPluginFailed     38000   a callback of the user's output plugin raised an exception
    │   ├── TransactionAborted     40000   a transaction was rolled back while it was decoded before its end
    │   └── WalRecordError         XX000   records are not in the order of the WAL, or name what does not exist
    ├── ApplyNotHeld           55000   the apply could not be held at one LSN, or was let go: what was read is not proven
    └── ApplyError                         a change cannot be applied
        ├── TargetRelationError    55000   the target's table does not match the publisher's
        ├── UnsupportedValue       22000   the target cannot store a value exactly
        ├── ConflictError          23505   the row exists already, or a constraint forbids it
        ├── ConflictResolverError  38000   the user's conflict resolver raised an exception, or returned what it must not
        └── ProgressConflict       40001   another process changed this subscription's progress (stops)

An error has three properties. Its class says *what failed*. :attr:`SubscriberError.transient` says
*whether the cause may pass without an action*. :attr:`SubscriberError.stops` says *whether a
subscription stops*: only an error stops it that proves a loss of changes, or a contradiction
between positions. Every other error is retried, also one that needs an action, since somebody may
take it meanwhile. The place of the error (relation, column, LSN, SQLSTATE) is in its
attributes, and ``hint`` tells the user what to do next. An error never contains a row's values or a
password, because errors are logged, stored in the target and printed.

An error is not changed after it is raised. Code that catches an error and can add information
raises a copy (:meth:`SubscriberError.replace`).
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, Final, Self, TypeVar

_Error = TypeVar("_Error", bound="SubscriberError")

RECREATE_SLOT: Final = "ALTER SUBSCRIPTION ... RECREATE SLOT makes a new slot and copies all tables again; readers see the old rows until then."
"""The way out of lost changes, for hints."""
COPY_FROM_SCRATCH: Final = "DROP SUBSCRIPTION, empty its tables (TRUNCATE in `subscriber sql`), and CREATE SUBSCRIPTION again, which copies them."
"""The way out where the subscription itself cannot go on, for hints."""


class SubscriberError(Exception):
    """The root of the tree.

    ``message`` is one sentence, PostgreSQL's if PostgreSQL can raise the same error; ``detail``
    says what was found. ``relation`` is ``schema.table`` with the publisher's names, or those that
    ``map`` gives them. ``lsn`` is the position of the error; for an apply error the finish LSN of
    the transaction, which ``ALTER SUBSCRIPTION ... SKIP`` takes, and ``xid`` the number of that
    transaction. ``context`` is PostgreSQL's CONTEXT line (rule C37). ``failure`` is an
    ``ApplyFailure`` of :mod:`subscriber.apply.conflicts.conflict`, or None.
    """

    sqlstate = "XX000"
    transient = False
    stops = False
    failure: object | None = None
    xid: int | None = None

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        relation: str | None = None,
        column: str | None = None,
        lsn: int | None = None,
        context: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate or type(self).sqlstate
        self.detail = detail
        self.hint = hint
        self.relation = relation
        self.column = column
        self.lsn = lsn
        self.context = context

    def report(self) -> str:
        """The error as psql prints it: a line each for ERROR, DETAIL, HINT and CONTEXT."""
        return f"ERROR:  {self.message}{self.further}"

    @property
    def further(self) -> str:
        """What follows the message in a report: DETAIL, HINT and CONTEXT, each on a new line."""
        further = (("DETAIL", self.detail), ("HINT", self.hint), ("CONTEXT", self.context))
        return "".join(f"\n{label}:  {text}" for label, text in further if text)

    def replace(self, **fields: Any) -> Self:
        """A copy of this error with other values for some attributes, and with the same traceback.

        >>> UsageError("wrong").replace(message="right").report()
        'ERROR:  right'
        """
        state = self.__dict__ | fields
        copy = _rebuild(type(self), (state["message"],), state)
        return copy.with_traceback(self.__traceback__)

    def without_frames(self) -> Self:
        """This error without its traceback, to be stored: frames hold rows and connections."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are sent between processes (Spark executors, the walreceiver), so it must be
        # possible to pickle them.
        return (_rebuild, (type(self), self.args, self.__dict__))


def fault(message: str, error: BaseException) -> PipelineError:
    """The error that reports an unforeseen exception: its class and place, but not its text, which
    may contain values.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    return PipelineError(
        message,
        detail=f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}",
        hint="This is a fault of the program: please report it.",
    )


def _rebuild(cls: type[_Error], args: tuple[Any, ...], state: dict[str, Any]) -> _Error:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class UsageError(SubscriberError):
    """What was asked for cannot be done as asked."""

    sqlstate = "22023"


class SQLSyntaxError(UsageError):
    """The command does not parse, at the character ``position`` (from 1) if that is known."""

    sqlstate = "42601"
    position: int | None = None


class NotSupportedError(UsageError):
    """The command is valid, but is refused; the message gives the reason."""

    sqlstate = "0A000"


class ScenarioError(UsageError):
    """A scenario file is not a valid session; the context is ``file:line``."""

    sqlstate = "42601"


class StatementTimeout(SubscriberError):
    """A statement of a scenario, or the wait for its effects, did not end in time."""

    sqlstate = "57014"


class ProtocolError(SubscriberError):
    """Bytes that are no valid message; reading stopped at byte ``offset`` of it."""

    sqlstate = "08P01"
    stops = True

    def __init__(
        self,
        message: str,
        *,
        offset: int | None = None,
        message_type: str | None = None,
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.offset = offset
        self.message_type = message_type
        if self.context is None and (offset is not None or message_type is not None):
            at = "" if offset is None else f" at byte {offset}"
            of = "" if message_type is None else f' of message type "{message_type}"'
            self.context = f"decoding{at}{of}".strip()


class PublisherError(SubscriberError):
    """An error of the publisher's server or connection. ``refused`` is libpq's reason, if any."""

    refused: str = ""


class PublisherUnavailable(PublisherError):
    """There is no connection to the publisher, or it was lost."""

    sqlstate = "08006"
    transient = True


class SlotInUse(PublisherError):
    """Another receiver streams from the replication slot."""

    sqlstate = "55006"
    transient = True


class PublisherTablesOutdated(PublisherError):
    """The publisher's tables may have changed since they were read: read them again and retry.

    ``shape`` is the table as the stream describes it, if it is not among those that were read; None
    if the tables must be compared with the publisher's catalog. Up to ``known_until`` they have not
    changed; 0 stands for the LSN at which they were read.
    """

    sqlstate = "55000"
    transient = True

    def __init__(self, message: str, *, shape: object = None, known_until: int = 0, **where: Any) -> None:
        super().__init__(message, **where)
        self.shape = shape
        self.known_until = known_until


class SlotLost(PublisherError):
    """The slot is missing or invalidated, or WAL that it needs was removed."""

    sqlstate = "55000"
    stops = True


class OtherSystem(PublisherError):
    """The publisher has another system identifier than the one from which changes were received."""

    sqlstate = "55000"
    stops = True


class HistoryDiverged(PublisherError):
    """The publisher was restored to an older state, or a server that was behind was promoted.

    ``diverged_at`` is the last position at which both histories are known to agree, or the end of
    the publisher's WAL.
    """

    sqlstate = "55000"
    stops = True

    def __init__(self, message: str, *, diverged_at: int = 0, **where: Any) -> None:
        super().__init__(message, **where)
        self.diverged_at = diverged_at


class BinaryFormNotRead(PublisherError):
    """The stream has a type in binary that is not read here: restart it with the text format."""

    sqlstate = "0A000"


class PublisherNotReady(PublisherError):
    """A setting, role, publication or plugin of the publisher does not meet the requirements."""

    sqlstate = "55000"


class JournalError(SubscriberError):
    """An error of the journal, which is between the receiver and the pipeline."""


class JournalUnavailable(JournalError):
    """The journal cannot be written now."""

    sqlstate = "53100"
    transient = True


class JournalGap(JournalError):
    """Changes between two positions are missing in the journal, so the work must not continue."""

    sqlstate = "55000"
    stops = True


class JournalCorrupt(JournalError):
    """A segment does not have the content that was written."""

    sqlstate = "XX001"
    stops = True


class TargetError(SubscriberError):
    """An error of the database that changes are written to."""


class TargetUnavailable(TargetError):
    """There is no connection to the target, it is locked, or it was lost."""

    sqlstate = "08006"
    transient = True


class ColumnsToAdd(TargetError):
    """A table of the target must get columns that cannot be added inside the batch's transaction.

    The publisher is asked which value older rows have in the new columns. Where DDL commits, the
    table is altered in a transaction of its own. Then the batch is applied again. ``shape`` is the
    table as the stream describes it; ``mixed`` says whether the transaction has written rows of the
    previous shape.
    """

    sqlstate = "55000"

    def __init__(self, message: str, *, shape: object = None, mixed: bool = False, **where: Any) -> None:
        super().__init__(message, **where)
        self.shape = shape
        self.mixed = mixed


class AlreadyRunning(TargetError):
    """Another ``subscriber run`` has the run lock of this target."""

    sqlstate = "55006"


class PipelineError(SubscriberError):
    """The Spark job failed for a reason within Spark: a lost executor, a killed Python worker."""

    sqlstate = "58000"
    transient = True


class Stopped(SubscriberError):
    """The operation was stopped on request, and is rolled back: nothing has failed."""

    sqlstate = "57014"
    transient = True


class PublicationsChanged(SubscriberError):
    """A command changed publications or slot during a batch, whose changes are filtered again."""

    sqlstate = "40001"
    transient = True


class ApplyNotHeld(SubscriberError):
    """The apply was not held to the end, so what was read is not proven to be of one LSN."""

    sqlstate = "55000"


class DataException(SubscriberError):
    """A text is not a value of a type, or a type cannot store a result (SQLSTATE class 22).

    ``quoting`` is PostgreSQL's message with the text that was read, for the user who wrote that
    text; None where PostgreSQL does not show it. The error's message never contains the text, which
    may be a row's value.
    """

    sqlstate = "22000"

    def __init__(self, message: str, *, quoting: str | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.quoting = quoting


class RowFilterError(DataException):
    """A row filter cannot be evaluated for a value; the publisher's server would stop, too.

    The message is PostgreSQL's if that does not contain a value of the row.
    """

    sqlstate = "22000"


class MessageListenerError(SubscriberError):
    """The user's function for logical messages raised; its name and the error's class are told."""

    sqlstate = "38000"


class TransformError(SubscriberError):
    """The user's function of the option ``transform`` raised, or returned something else."""

    sqlstate = "38000"


class OutputPluginError(SubscriberError):
    """An output plugin lacks a required callback, or wrote where it must not (rules E1, E7)."""


class OutputCallbackMissing(OutputPluginError):
    """Streaming or two-phase decoding requires a callback that the plugin lacks (rules E3, E4)."""

    sqlstate = "55000"


class OutputPluginFailed(OutputPluginError):
    """A callback of the user's plugin raised; its name and the error's class are told."""

    sqlstate = "38000"


class TransactionAborted(OutputPluginError):
    """A transaction was rolled back while it was decoded before its end (rule E14).

    A callback may raise it, too; decoding then ends the transaction's block and goes on.
    """

    sqlstate = "40000"


class WalRecordError(OutputPluginError):
    """Records are not in the order of the WAL, or name what does not exist."""


class ApplyError(SubscriberError):
    """A change that cannot be applied to the target."""


class TargetRelationError(ApplyError):
    """The target's table is missing, or does not match the publisher's (rules C3, C12)."""

    sqlstate = "55000"


class UnsupportedValue(ApplyError):
    """The target cannot store a value exactly."""

    sqlstate = "22000"


class ConflictError(ApplyError):
    """A constraint of the target forbids the change (rule C22)."""

    sqlstate = "23505"


class ConflictResolverError(ApplyError):
    """The user's conflict resolver failed; its name and the error's class are told."""

    sqlstate = "38000"


class ProgressConflict(ApplyError):
    """Another process changed this subscription's progress in the target."""

    sqlstate = "40001"
    stops = True
