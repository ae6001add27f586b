"""Every error this package raises, in one tree.

::

    SubscriberError
    ├── UsageError                 what was asked for cannot be done as asked
    │   ├── SQLSyntaxError         42601   the command does not parse
    │   ├── NotSupportedError      0A000   understood, and refused with the reason
    │   └── ScenarioError          42601   a scenario file that is not a session (file and line)
    ├── StatementTimeout           57014   a scenario's statement did not end in time
    ├── ProtocolError              08P01   bytes that are not pgoutput (byte offset, message type)
    ├── PublisherError                     the server we replicate from
    │   ├── PublisherUnavailable   08006   no connection, or it was lost                 (transient)
    │   ├── SlotInUse              55006   another receiver streams from the slot        (transient)
    │   ├── PublisherTablesOutdated 55000  the publisher's tables have changed since they were read (transient)
    │   ├── HistoryDiverged        55000   the publisher was restored or another server was promoted: its WAL is not what was received
    │   ├── BinaryFormNotRead      0A000   values of a type whose binary form is not read are to come: ask for text
    │   └── PublisherNotReady      55000   wal_level, slot, publication or plugin is wrong
    ├── JournalError
    │   ├── JournalUnavailable     53100   cannot be written now (disk full, ...)        (transient)
    │   ├── JournalGap             55000   journal and slot, or journal and target, disagree
    │   └── JournalCorrupt         XX001   a segment is not what was written
    ├── TargetError                        the database we replicate into
    │   ├── ColumnsToAdd           55000   a table is to be altered before the batch can be applied
    │   ├── TargetUnavailable      08006   no connection, locked, or it was lost         (transient)
    │   └── AlreadyRunning         55006   another `subscriber run` owns this target
    ├── PipelineError              58000   the Spark job failed for a reason of its own          (transient)
    ├── Stopped                    57014   the work was told to end: nothing has failed           (transient)
    ├── PublicationsChanged        40001   an emulated publication was altered meanwhile          (transient)
    ├── DataException              22000   a text that is no value of a type, or a result that the type cannot hold
    │   └── RowFilterError         22000   a row filter cannot be evaluated for a row
    ├── MessageListenerError       38000   the user's function for logical messages raised
    └── ApplyError                         a change that cannot be applied
        ├── TargetRelationError    55000   the target's table does not fit the publisher's
        ├── UnsupportedValue       22000   a value the target cannot hold exactly
        ├── ConflictError          23505   the row is already there, or a constraint forbids it
        └── ProgressConflict       40001   somebody else moved this subscription's progress

There are two axes: *what failed* is the class, *whether trying again may help* is
:attr:`SubscriberError.transient`. An error carries where it happened (relation, column, LSN,
SQLSTATE) as attributes, says what to do next in ``hint``, and never holds a row's values or a
password: errors are logged, stored in the target and printed.

An error is not changed once it is raised. Whoever catches it and knows more raises a copy
(:meth:`SubscriberError.replace`).
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

_Error = TypeVar("_Error", bound="SubscriberError")


class SubscriberError(Exception):
    """The root of the tree.

    Attributes:
        message: one sentence, PostgreSQL's own where it has one.
        sqlstate: five characters; the class's default unless given.
        detail: what was found, if that needs a sentence of its own.
        hint: what to do next.
        relation: ``schema.table`` as the publisher names it, or what the subscription's map makes
            of it.
        column: a column's name.
        lsn: the position concerned; for an apply error the transaction's finish LSN (the one that
            ``ALTER SUBSCRIPTION ... SKIP`` takes).
        context: where in the stream, as PostgreSQL's CONTEXT line (rule C37).
        transient: whether trying again may help; the class's default unless replaced.
        failure: what the stage that met the error knows beside it (``ApplyFailure`` of
            :mod:`subscriber.apply.failure`); None where it is nothing.
    """

    sqlstate = "XX000"
    transient = False
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
        """The error as psql would print it: ERROR, DETAIL, HINT and CONTEXT, a line each."""
        lines = [f"ERROR:  {self.message}"]
        for label, text in (("DETAIL", self.detail), ("HINT", self.hint), ("CONTEXT", self.context)):
            if text:
                lines.append(f"{label}:  {text}")
        return "\n".join(lines)

    def replace(self, **fields: Any) -> Self:
        """A copy of this error with other values for some attributes, and with the frames that this
        one was raised in.

        >>> UsageError("wrong").replace(message="right").report()
        'ERROR:  right'
        """
        state = self.__dict__ | fields
        copy = _rebuild(type(self), (state["message"],), state)
        return copy.with_traceback(self.__traceback__)

    def without_frames(self) -> Self:
        """This error without the frames that it was raised in, for whoever keeps it: they hold
        rows, files and connections.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries (Spark executors, the walreceiver), so they must survive
        # pickling.
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
        position: of the character concerned in the command, from 1; None where it is about no
            place.
    """

    sqlstate = "42601"
    position: int | None = None


class NotSupportedError(UsageError):
    """Understood, and refused with the reason."""

    sqlstate = "0A000"


class ScenarioError(UsageError):
    """A scenario file that is not a session; the context is its place, ``file:line``."""

    sqlstate = "42601"


class StatementTimeout(SubscriberError):
    """A scenario's statement, or the settling around it, did not end in time."""

    sqlstate = "57014"


class ProtocolError(SubscriberError):
    """Bytes that are not a valid message of the protocol.

    Attributes:
        offset: byte offset into the message at which reading stopped.
        message_type: the message's type byte as text, or None when there was none.
    """

    sqlstate = "08P01"

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
    """The server we replicate from."""


class PublisherUnavailable(PublisherError):
    """There is no connection to the publisher, or it was lost."""

    sqlstate = "08006"
    transient = True


class SlotInUse(PublisherError):
    """Another receiver streams from the replication slot."""

    sqlstate = "55006"
    transient = True


class PublisherTablesOutdated(PublisherError):
    """The stream describes a table that is not among the publisher's tables as they were read: read
    them anew, and try again.

    Attributes:
        shape: the table as the stream describes it
            (:class:`~subscriber.protocol.messages.Relation`).
    """

    sqlstate = "55000"
    transient = True

    def __init__(self, message: str, *, shape: object = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.shape = shape


class HistoryDiverged(PublisherError):
    """The publisher's WAL is not the history that was received: it was restored to an older state,
    or a server that was behind was promoted.

    Attributes:
        diverged_at: the last position that both histories are known to share, or the end of the
            publisher's WAL.
    """

    sqlstate = "55000"

    def __init__(self, message: str, *, diverged_at: int = 0, **where: Any) -> None:
        super().__init__(message, **where)
        self.diverged_at = diverged_at


class BinaryFormNotRead(PublisherError):
    """The stream describes a column whose type's binary form is not read: begin the stream anew,
    and ask for text.
    """

    sqlstate = "0A000"


class PublisherNotReady(PublisherError):
    """A setting, slot, publication or plugin at the publisher is not as it must be."""

    sqlstate = "55000"


class JournalError(SubscriberError):
    """The journal between receiver and pipeline."""


class JournalUnavailable(JournalError):
    """The journal cannot be written now."""

    sqlstate = "53100"
    transient = True


class JournalGap(JournalError):
    """Changes between two positions are not in the journal, and nobody may pretend they are."""

    sqlstate = "55000"


class JournalCorrupt(JournalError):
    """A segment is not what was written."""

    sqlstate = "XX001"


class TargetError(SubscriberError):
    """The database we replicate into."""


class TargetUnavailable(TargetError):
    """There is no connection to the target, it is locked, or it was lost."""

    sqlstate = "08006"
    transient = True


class ColumnsToAdd(TargetError):
    """A table of the target is to get columns, and what comes first cannot be done inside the
    batch's transaction.

    The publisher has to be asked which value older rows have in them; and where DDL commits, the
    table is altered by itself. Then the batch is applied again.

    Attributes:
        shape: the table as the stream describes it
            (:class:`~subscriber.protocol.messages.Relation`).
        mixed: the transaction has written rows of the table in its shape of before.
    """

    sqlstate = "55000"

    def __init__(self, message: str, *, shape: object = None, mixed: bool = False, **where: Any) -> None:
        super().__init__(message, **where)
        self.shape = shape
        self.mixed = mixed


class AlreadyRunning(TargetError):
    """Another ``subscriber run`` owns this target."""

    sqlstate = "55006"


class PipelineError(SubscriberError):
    """The Spark job failed for a reason of its own: a lost executor, a killed Python worker."""

    sqlstate = "58000"
    transient = True


class Stopped(SubscriberError):
    """What works was told to end, and has rolled back what it had begun: nothing has failed."""

    sqlstate = "57014"
    transient = True


class PublicationsChanged(SubscriberError):
    """A command was given while a batch was on its way, and what is published, or from which slot,
    is another thing now: the batch is taken back, and its changes are looked at again.
    """

    sqlstate = "40001"
    transient = True


class DataException(SubscriberError):
    """A text that is no value of a type, or a result that the type cannot hold (SQLSTATE class 22).

    Attributes:
        quoting: PostgreSQL's message with the text that was read, for whoever wrote that text;
            None where PostgreSQL shows nothing. The message never does, because the text may be
            a row's.
    """

    sqlstate = "22000"

    def __init__(self, message: str, *, quoting: str | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.quoting = quoting


class RowFilterError(DataException):
    """A row filter met a value that it cannot be evaluated for, such as a zero to divide by; the
    server would stop, too.

    The message is PostgreSQL's where that shows no value of the row.
    """

    sqlstate = "22000"


class MessageListenerError(SubscriberError):
    """The user's function for logical messages raised; only its name and the class of what it
    raised are told.
    """

    sqlstate = "38000"


class ApplyError(SubscriberError):
    """A change that cannot be applied to the target."""


class TargetRelationError(ApplyError):
    """The target's table is missing, or does not fit the publisher's (rules C3, C12)."""

    sqlstate = "55000"


class UnsupportedValue(ApplyError):
    """A value that the target cannot hold exactly."""

    sqlstate = "22000"


class ConflictError(ApplyError):
    """A constraint of the target forbids the change (rule C22)."""

    sqlstate = "23505"


class ProgressConflict(ApplyError):
    """Somebody else moved this subscription's progress in the target."""

    sqlstate = "40001"
