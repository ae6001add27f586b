"""Translation of PostgreSQL's errors: names come only from places that cannot contain a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import exc
from typing_extensions import override

from subscriber.base import errors
from subscriber.targets.base.errors import Errors

_VALUE_ERRORS: Final = {
    "22001": "value too long for the column's type",
    "22003": "value out of range for the column's type",
    "22007": "invalid input syntax for the column's type",
    "22008": "date/time field value out of range",
    "22021": "character not in the target's encoding",
    "22P02": "invalid input syntax for the column's type",
    "22P05": "character has no equivalent in the target's encoding",
}
_REASONS: Final = {
    "40001": "could not serialize access",
    "40P01": "deadlock detected",
    "53100": "disk full",
    "53200": "out of memory",
    "53300": "too many connections",
    "55006": "object in use",
    "55P03": "lock timeout",
    "57014": "statement canceled",
    "57P01": "terminated by an administrator",
    "57P02": "the server crashed",
    "57P03": "the server is starting up or shutting down",
}


_HINTS: Final = {
    "28000": "Check the user of the target's URL, and the server's pg_hba.conf.",
    "28P01": "Check the password of the target's URL, or of the user's password file.",
    "3D000": "Check the database of the target's URL.",
    "53100": "Free space on the target's disk; the transaction is retried until then.",
    "53300": "Raise max_connections of the target, or close connections; the transaction is retried until then.",
    "55P03": "Another transaction holds a lock (pg_locks shows which) for longer than lock_timeout allows; the transaction is retried until then.",
    "57014": "The statement was canceled, or statement_timeout of the target's role or database is shorter than a batch takes;"
    " the transaction is retried.",
}


class PostgreSQLErrors(Errors):
    def __init__(self) -> None:
        super().__init__("PostgreSQL")

    @override
    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> errors.SubscriberError:
        original = getattr(error, "orig", None)
        sqlstate = getattr(original, "sqlstate", None)
        if isinstance(error, exc.OperationalError) and (sqlstate is None or error.connection_invalidated):
            # libpq's text about the connection: it has host, port and user, but never a row.
            return errors.TargetUnavailable(
                "PostgreSQL is not available",
                detail=" ".join(str(original).split()),
                hint="Check host, port, user, password and database of the target's URL, and that the server runs.",
            )
        if original is None or sqlstate is None:
            return super().translate(error, columns)
        diag = original.diag
        translated = translate_sqlstate(sqlstate, diag)
        translated.column = translated.column or column_of_parameter(str(diag.context), columns)
        return translated


def translate_sqlstate(sqlstate: str, diag: Any) -> errors.SubscriberError:
    match sqlstate[:2]:
        case "23":
            return _constraint(sqlstate, diag)
        case "22":
            return errors.UnsupportedValue(
                _VALUE_ERRORS.get(sqlstate, "the target cannot hold a value"), sqlstate=sqlstate
            )
        case "42" | "0A":
            # Messages of these classes contain names and types, but never rows.
            return errors.TargetRelationError(str(diag.message_primary), sqlstate=sqlstate)
        case _ if sqlstate == "25006":
            return errors.TargetUnavailable(
                "PostgreSQL takes no writes: it is a standby, or read only",
                sqlstate=sqlstate,
                hint="Name the primary in the target's URL; of several hosts, target_session_attrs=read-write finds it.",
            )
        case "08" | "28" | "40" | "53" | "55" | "57" | "58" if sqlstate != "55000":
            reason = f"{_REASONS[sqlstate]}, " if sqlstate in _REASONS else ""
            return errors.TargetUnavailable(
                f"PostgreSQL is not available ({reason}SQLSTATE {sqlstate})",
                sqlstate=sqlstate,
                hint=_HINTS.get(sqlstate, "Give the command again; `subscriber run` tries again by itself."),
            )
        case "P0":
            return errors.ConflictError("a trigger of the target refused the change", sqlstate=sqlstate)
        case _:
            return errors.ApplyError(f"PostgreSQL refused a statement (SQLSTATE {sqlstate})", sqlstate=sqlstate)


def row_security_error(role: str, table: str) -> errors.TargetRelationError:
    """The error for row-level security (rule C24), with the text of PostgreSQL's apply worker."""
    return errors.TargetRelationError(
        f'user "{role}" cannot replicate into relation with row-level security enabled: "{table}"',
        sqlstate="0A000",
        detail="Rows that its policies hide from this role could be neither found nor written.",
        hint="Connect as the table's owner, or as a role with BYPASSRLS.",
    )


def rule_error(rule: str, table: str) -> errors.TargetRelationError:
    """PostgreSQL's apply worker does not execute statements, so rules do not fire there."""
    return errors.TargetRelationError(
        f'cannot replicate into relation "{table}" while its rule "{rule}" acts on replicated changes',
        sqlstate="0A000",
        detail="Changes are applied as SQL statements, and the rule would replace them with other statements.",
        hint=f'Use ALTER TABLE ... DISABLE RULE "{rule}". If the target\'s role may set session_replication_role,'
        " ENABLE RULE is sufficient: the rule then acts on other changes only.",
    )


def explain_prepared(error: errors.SubscriberError, gid: str) -> errors.SubscriberError:
    """Errors of PREPARE TRANSACTION and its ends, with PostgreSQL's text (rules C50, C52)."""
    match error.sqlstate:
        case "55000":
            return errors.ApplyError(
                "prepared transactions are disabled",
                sqlstate="55000",
                hint='Set "max_prepared_transactions" of the target to a nonzero value.',
            )
        case "42710":
            return errors.ApplyError(f'transaction identifier "{gid}" is already in use', sqlstate="42710")
        case "42704":
            return errors.ApplyError(f'prepared transaction with identifier "{gid}" does not exist', sqlstate="42704")
        case _:
            return error


def column_of_parameter(context: str, columns: Sequence[str]) -> str | None:
    # "unnamed portal parameter $2 = ...": the number may be used, the value may not.
    found = re.match(r"(?:un)?named portal parameter \$(\d+)", context)
    return columns[int(found[1]) - 1] if found and int(found[1]) <= len(columns) else None


def translate_driver(error: Any) -> errors.SubscriberError:
    if error.sqlstate is None:
        return errors.TargetUnavailable("the connection to PostgreSQL was lost")
    return translate_sqlstate(error.sqlstate, error.diag)


def translate_copy(error: Any, table: str, columns: Sequence[str]) -> errors.SubscriberError:
    translated = translate_driver(error)
    if error.sqlstate is None:
        return translated
    translated.column = translated.column or _column_of_copy(str(error.diag.context), table, columns)
    return translated


def _column_of_copy(context: str, table: str, columns: Sequence[str]) -> str | None:
    # "COPY t, line 1, column b: ...": the name may be used, the value after it may not.
    found = re.match(rf"COPY {re.escape(table)}, line \d+, column ", context)
    rest = context[found.end() :] if found else ""
    return max((column for column in columns if rest.startswith(f"{column}: ")), key=len, default=None)


def _constraint(sqlstate: str, diag: Any) -> errors.ConflictError:
    name, table, column = diag.constraint_name, diag.table_name, diag.column_name
    messages = {
        "23502": f'null value in column "{column}" of relation "{table}" violates not-null constraint',
        "23503": f'change of table "{table}" violates foreign key constraint "{name}"',
        "23505": f'duplicate key value violates unique constraint "{name}"',
        "23514": _violated_check(diag),
        "23P01": f'conflicting key value violates exclusion constraint "{name}"',
    }
    message = messages.get(sqlstate, f"a constraint forbids the change (SQLSTATE {sqlstate})")
    detail = f'Key already exists in unique index "{name}".' if sqlstate == "23505" else None
    return errors.ConflictError(message, sqlstate=sqlstate, detail=detail, column=column)


def _violated_check(diag: Any) -> str:
    if diag.datatype_name is not None:
        return f'value for domain {diag.datatype_name} violates check constraint "{diag.constraint_name}"'
    if diag.constraint_name is not None:
        return f'new row for relation "{diag.table_name}" violates check constraint "{diag.constraint_name}"'
    if str(diag.message_primary).startswith("no partition of relation"):
        return f'no partition of relation "{diag.table_name}" found for row'
    return f'new row for relation "{diag.table_name}" violates partition constraint'
