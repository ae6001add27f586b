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

from typing import Any, Final, Self, TypeVar

_Error = TypeVar("_Error", bound="SubscriberError")

RECREATE_SLOT: Final = "ALTER SUBSCRIPTION ... RECREATE SLOT makes a new slot and copies all tables again; readers see the old rows until then."
"""The way out of lost changes, for hints."""
COPY_FROM_SCRATCH: Final = "DROP SUBSCRIPTION, empty its tables (TRUNCATE in `subscriber sql`), and CREATE SUBSCRIPTION again, which copies them."
"""The way out where the subscription itself cannot go on, for hints."""


class SubscriberError(Exception):
    """The root of the tree.

    Attributes:
        message: one sentence; PostgreSQL's message if PostgreSQL can raise the same error.
        sqlstate: five characters; the default of the class unless given.
        detail: what was found, if that needs a separate sentence.
        hint: what to do next.
        relation: ``schema.table`` with the publisher's names, or with the names to which the
            subscription's ``map`` changes them.
        column: the name of a column.
        lsn: the position at which the error occurred; for an apply error the finish LSN of the
            transaction (the LSN that ``ALTER SUBSCRIPTION ... SKIP`` takes).
        context: the place in the stream, as PostgreSQL's CONTEXT line reports it (rule C37).
        transient: whether the cause may pass without an action; the default of the class unless
            replaced.
        stops: whether a subscription stops instead of trying again: the error proves that changes
            are lost, or that positions contradict each other.
        failure: further facts from the stage in which the error occurred (``ApplyFailure`` of
            :mod:`subscriber.apply.conflicts.failure`); None if there are no further facts.
    """

    sqlstate = "XX000"
    transient = False
    stops = False
    failure: object | None = None

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
        """The error as psql would print it: ERROR, DETAIL, HINT and CONTEXT, each on a separate
        line.
        """
        lines = [f"ERROR:  {self.message}"]
        for label, text in (("DETAIL", self.detail), ("HINT", self.hint), ("CONTEXT", self.context)):
            if text:
                lines.append(f"{label}:  {text}")
        return "\n".join(lines)

    def replace(self, **fields: Any) -> Self:
        """A copy of this error with other values for some attributes, and with the original's
        traceback.

        >>> UsageError("wrong").replace(message="right").report()
        'ERROR:  right'
        """
        state = self.__dict__ | fields
        copy = _rebuild(type(self), (state["message"],), state)
        return copy.with_traceback(self.__traceback__)

    def without_frames(self) -> Self:
        """This error without its traceback.

        For code that stores errors: the frames of a traceback hold rows, files and connections.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are sent between processes (Spark executors, the walreceiver), so it must be
        # possible to pickle them.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[_Error], args: tuple[Any, ...], state: dict[str, Any]) -> _Error:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class UsageError(SubscriberError):
    """What was asked for cannot be done as asked."""

    sqlstate = "22023"


class SQLSyntaxError(UsageError):
    """The command does not parse.

    Attributes:
        position: the number of the character at which the error is, from 1; None if the error does
            not belong to a place in the command.
    """

    sqlstate = "42601"
    position: int | None = None


class NotSupportedError(UsageError):
    """The command is valid, but is refused; the message gives the reason."""

    sqlstate = "0A000"


class ScenarioError(UsageError):
    """A scenario file is not a valid session; the context is the place, ``file:line``."""

    sqlstate = "42601"


class StatementTimeout(SubscriberError):
    """A statement of a scenario, or the wait for its effects, did not end in time."""

    sqlstate = "57014"


class ProtocolError(SubscriberError):
    """Bytes that are not a valid message of the protocol.

    Attributes:
        offset: byte offset into the message at which reading stopped.
        message_type: the message's type byte as text, or None when there was none.
    """

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
    """An error of the publisher's server or of the connection to it.

    Attributes:
        refused: libpq's reason if the connection could not be made; else empty.
    """

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
    """The stream describes a table that is not among the publisher's tables as they were last read.

    The caller must read the publisher's tables again and retry.

    Attributes:
        shape: the table as the stream describes it
            (:class:`~subscriber.protocol.messages.Relation`).
    """

    sqlstate = "55000"
    transient = True

    def __init__(self, message: str, *, shape: object = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.shape = shape


class SlotLost(PublisherError):
    """The publisher no longer has what the slot has not sent yet: the slot is missing or
    invalidated, or WAL that it needs was removed.
    """

    sqlstate = "55000"
    stops = True


class OtherSystem(PublisherError):
    """The publisher is not the system from which changes were received: it has another system
    identifier.
    """

    sqlstate = "55000"
    stops = True


class HistoryDiverged(PublisherError):
    """The publisher's WAL differs from the WAL that was received.

    The publisher was restored to an older state, or a server that was behind was promoted.

    Attributes:
        diverged_at: the last position at which both histories are known to agree, or the end of the
            publisher's WAL.
    """

    sqlstate = "55000"
    stops = True

    def __init__(self, message: str, *, diverged_at: int = 0, **where: Any) -> None:
        super().__init__(message, **where)
        self.diverged_at = diverged_at


class BinaryFormNotRead(PublisherError):
    """The stream describes a column with a type whose binary format this package cannot read.

    The caller must restart the stream and request the text format.
    """

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

    Two steps come first. The publisher is asked which value older rows have in the new columns. On
    a target where DDL commits the transaction, the table is altered in a separate transaction. Then
    the batch is applied again.

    Attributes:
        shape: the table as the stream describes it
            (:class:`~subscriber.protocol.messages.Relation`).
        mixed: whether the transaction has written rows of the table in its previous shape.
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
    """The operation was stopped on request and has rolled back its transaction: nothing has
    failed.
    """

    sqlstate = "57014"
    transient = True


class PublicationsChanged(SubscriberError):
    """A command changed the publications or the slot while a batch was being applied.

    The batch is rolled back, and its changes are evaluated again.
    """

    sqlstate = "40001"
    transient = True


class ApplyNotHeld(SubscriberError):
    """The apply of a subscription could not be held at one LSN, or was let go meanwhile.

    What was read of the target is then not proven to be the state at that LSN.
    """

    sqlstate = "55000"


class DataException(SubscriberError):
    """A text is not a value of a type, or a type cannot store a result (SQLSTATE class 22).

    Attributes:
        quoting: PostgreSQL's message with the text that was read, to be shown only to the user who
            wrote that text; None where PostgreSQL does not show the text. The error's message never
            contains the text, because the text may be a row's value.
    """

    sqlstate = "22000"

    def __init__(self, message: str, *, quoting: str | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.quoting = quoting


class RowFilterError(DataException):
    """A row filter cannot be evaluated for a value, for instance because it would divide by zero.

    The publisher's server would stop, too. The message is PostgreSQL's if that does not contain a
    value of the row.
    """

    sqlstate = "22000"


class MessageListenerError(SubscriberError):
    """The user's function for logical messages raised an exception.

    The error contains only the function's name and the class of the exception.
    """

    sqlstate = "38000"


class OutputPluginError(SubscriberError):
    """An output plugin lacks a callback that is always required, or wrote where it must not (rules
    E1, E7).
    """


class OutputCallbackMissing(OutputPluginError):
    """Streaming or two-phase decoding requires a callback that the output plugin does not have
    (rules E3, E4).
    """

    sqlstate = "55000"


class OutputPluginFailed(OutputPluginError):
    """A callback of the user's output plugin raised an exception that is not in this tree.

    The message contains only the callback's name and the class of the exception.
    """

    sqlstate = "38000"


class TransactionAborted(OutputPluginError):
    """A transaction was rolled back while it was decoded before its end (rule E14).

    A callback may raise it, too. Logical decoding then ends the transaction's block and goes on.
    """

    sqlstate = "40000"


class WalRecordError(OutputPluginError):
    """Records are not in the order of the WAL, or name a transaction or a relation that does not
    exist.
    """


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


class ProgressConflict(ApplyError):
    """Another process changed this subscription's progress in the target."""

    sqlstate = "40001"
    stops = True
