"""Judges the published tables, and what the publisher has besides them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from subscriber.errors import SubscriberError
from subscriber.migration.findings import Finding
from subscriber.publication.definition import Publication
from subscriber.publisher.replica_identity import TableWithoutIdentity
from subscriber.publisher.table_facts import TableFacts
from subscriber.publisher.unreplicated_objects import UnreplicatedObjects
from subscriber.sql.keywords import quote_identifier


def no_table(names: Sequence[str], publications: Sequence[Publication], of_sequences: Sequence[str]) -> Finding:
    """The finding that nothing is published, with the statement that the server accepts.

    Args:
        names: the publications of the subscription.
        publications: the publications that are streamed and exist.
        of_sequences: those of them that are FOR ALL SEQUENCES.
    """
    first = next(iter(publications), None)
    remedy = None
    if first is not None and first.all_tables:
        remedy = "CREATE TABLE …; -- every table of the publisher is published"
    elif first is not None:
        objects = "SET ALL TABLES, ALL SEQUENCES" if first.name in of_sequences else "ADD TABLE …"
        remedy = f"ALTER PUBLICATION {quote_identifier(first.name)} {objects};"
    return Finding(
        severity="WARN",
        area="tables",
        object=", ".join(names),
        message="no table is published",
        reason="A publication FOR ALL SEQUENCES has no tables, and a subscription follows no sequences."
        if of_sequences
        else None,
        remedy=remedy,
    )


def check_identities(tables: Sequence[TableWithoutIdentity]) -> Iterator[Finding]:
    """Tables whose UPDATE or DELETE the publisher refuses once they are published (rules B32,
    B33).
    """
    for table in tables:
        verbs = [verb for verb, published in (("UPDATE", table.updates), ("DELETE", table.deletes)) if published]
        yield Finding(
            severity="FAIL",
            area="tables",
            object=table.qualified_name,
            message="the table has no replica identity",
            reason=f"The publisher refuses every {' and '.join(verbs)} on it, from any application.",
            remedy=f"{table.statement};",
        )


def uncovered_identity(error: SubscriberError, table: tuple[str, str]) -> Finding:
    """A filter or column list that needs more than the replica identity (rules B35, B36).

    Args:
        error: the error that the publisher raises for an UPDATE or DELETE
            (:func:`subscriber.publication.coverage.uncovered`).
        table: schema and name of its table.
    """
    schema, name = table
    return Finding(
        severity="FAIL",
        area="tables",
        object=error.relation or "replica identity",
        message=f"the publisher refuses the statement: {error.message}",
        reason=error.detail,
        remedy=f"ALTER TABLE {quote_identifier(schema)}.{quote_identifier(name)} REPLICA IDENTITY FULL;",
    )


def check_row_security(tables: Sequence[TableFacts], role: str) -> Iterator[Finding]:
    """Tables of which the role sees only some rows: a copy would leave out the others without an
    error.
    """
    for table in tables:
        if table.is_hidden:
            yield Finding(
                severity="FAIL",
                area="tables",
                object=table.qualified_name,
                message=f'row security hides rows of the table from role "{role}"',
                reason="The initial copy would leave them out, without an error.",
                remedy=f"ALTER ROLE {quote_identifier(role)} BYPASSRLS;",
            )


def list_unreplicated(objects: Sequence[UnreplicatedObjects]) -> Iterator[Finding]:
    """What is not replicated, one finding for each kind."""
    for one in objects:
        more = one.number - len(one.names)
        yield Finding(
            severity="WARN" if one.kind == "unlogged tables" else "INFO",
            area="not replicated",
            object=one.kind,
            message=f"{one.number:,} {'is' if one.number == 1 else 'are'} not replicated: {', '.join(one.names)}{f' and {more:,} more' if more else ''}",
            remedy=_REMEDIES.get(one.kind),
        )


_REMEDIES = {
    "unlogged tables": "ALTER TABLE … SET LOGGED; for each that is to be replicated.",
    "sequences": "Run ALTER SUBSCRIPTION … REFRESH SEQUENCES when the application is switched over.",
}
