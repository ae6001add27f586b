"""Emulated publications, as PostgreSQL stores them. Errors: 42704 unknown, 42710 exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.catalog.catalog_version import new_version
from subscriber.catalog.own_tables import PUBLICATION, PUBLICATION_NAMESPACE, PUBLICATION_REL
from subscriber.catalog.rows import change_rows, delete_rows, matching
from subscriber.postgres.publication.definition import GeneratedColumns, Operation, Publication, TableEntry


def insert_publication(connection: sa.Connection, publication: Publication, owner: str) -> None:
    """Store a new publication. ``owner`` is the role of the publisher with which it was created."""
    _refuse_taken(connection, publication.name)
    last = connection.execute(sa.select(sa.func.max(PUBLICATION.c.oid))).scalar_one()
    oid = (last or 0) + 1
    values = {"oid": oid, "pubname": publication.name, "pubowner": owner, **_columns(publication)}
    connection.execute(sa.insert(PUBLICATION).values(values))
    _insert_members(connection, oid, publication)


def find_publication(connection: sa.Connection, name: str) -> Publication | None:
    return next(iter(_read(connection, PUBLICATION.c.pubname == name)), None)


def get_publication(connection: sa.Connection, name: str) -> Publication:
    publication = find_publication(connection, name)
    if publication is None:
        raise _missing(name)
    return publication


def list_publications(connection: sa.Connection) -> list[Publication]:
    return _read(connection, sa.true())


def owners_of_publications(connection: sa.Connection) -> dict[str, str]:
    return {row.pubname: row.pubowner for row in connection.execute(sa.select(PUBLICATION))}


def publication_versions(connection: sa.Connection, names: Sequence[str]) -> dict[str, int]:
    """The versions of existing publications (:mod:`subscriber.catalog.catalog_version`)."""
    query = sa.select(PUBLICATION.c.pubname, PUBLICATION.c.pubversion).where(PUBLICATION.c.pubname.in_(names))
    return {row.pubname: row.pubversion for row in connection.execute(query)}


def replace_publication(connection: sa.Connection, publication: Publication) -> None:
    oid = _oid(connection, publication.name)
    change_rows(connection, matching(PUBLICATION, oid=oid), PUBLICATION, **_columns(publication))
    _delete_members(connection, oid)
    _insert_members(connection, oid, publication)


def rename_publication(connection: sa.Connection, name: str, new_name: str) -> None:
    oid = _oid(connection, name)
    _refuse_taken(connection, new_name)
    change_rows(connection, matching(PUBLICATION, oid=oid), PUBLICATION, pubname=new_name, pubversion=new_version())


def delete_publication(connection: sa.Connection, name: str) -> None:
    oid = _oid(connection, name)
    _delete_members(connection, oid)
    delete_rows(connection, PUBLICATION, oid=oid)


def _oid(connection: sa.Connection, name: str) -> int:
    oid = connection.execute(sa.select(PUBLICATION.c.oid).where(PUBLICATION.c.pubname == name)).scalar_one_or_none()
    if oid is None:
        raise _missing(name)
    return int(oid)


def _missing(name: str) -> UsageError:
    return UsageError(f'publication "{name}" does not exist', sqlstate="42704")


def _refuse_taken(connection: sa.Connection, name: str) -> None:
    if connection.execute(sa.select(PUBLICATION.c.oid).where(PUBLICATION.c.pubname == name)).first() is not None:
        raise UsageError(f'publication "{name}" already exists', sqlstate="42710")


# Rows ---------------------------------------------------------------------------------------------

_OPERATIONS: Final[Mapping[str, Operation]] = {
    "pubinsert": "insert",
    "pubupdate": "update",
    "pubdelete": "delete",
    "pubtruncate": "truncate",
}
_GENERATED: Final[Mapping[str, GeneratedColumns]] = {"n": "none", "s": "stored"}


def _columns(publication: Publication) -> dict[str, Any]:
    return {
        "puballtables": publication.all_tables,
        "puballsequences": publication.all_sequences,
        **{column: operation in publication.publish for column, operation in _OPERATIONS.items()},
        "pubviaroot": publication.via_root,
        "pubgencols": publication.generated_columns[0],
        "pubversion": new_version(),
    }


def _insert_members(connection: sa.Connection, oid: int, publication: Publication) -> None:
    members = [
        {
            "prschema": entry.schema,
            "prrelname": entry.name,
            "prattrs": entry.columns,
            "prqual": entry.where,
            "prexcept": False,
        }
        for entry in publication.tables
    ]
    members += [
        {"prschema": schema, "prrelname": name, "prattrs": None, "prqual": None, "prexcept": True}
        for schema, name in publication.excepted
    ]
    for place, member in enumerate(members):
        connection.execute(sa.insert(PUBLICATION_REL).values(prpubid=oid, prplace=place, **member))
    for place, schema in enumerate(publication.schemas):
        row = {"pnpubid": oid, "pnnspname": schema, "pnplace": place}
        connection.execute(sa.insert(PUBLICATION_NAMESPACE).values(row))


def _delete_members(connection: sa.Connection, oid: int) -> None:
    delete_rows(connection, PUBLICATION_REL, prpubid=oid)
    delete_rows(connection, PUBLICATION_NAMESPACE, pnpubid=oid)


def _read(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[Publication]:
    rows = connection.execute(sa.select(PUBLICATION).where(condition)).all()
    return [_publication(connection, row) for row in sorted(rows, key=lambda row: str(row.pubname))]


def _publication(connection: sa.Connection, row: sa.Row[tuple[Any, ...]]) -> Publication:
    rel, namespace = PUBLICATION_REL.c, PUBLICATION_NAMESPACE.c
    members = connection.execute(sa.select(PUBLICATION_REL).where(rel.prpubid == row.oid).order_by(rel.prplace)).all()
    schemas = connection.execute(
        sa.select(namespace.pnnspname).where(namespace.pnpubid == row.oid).order_by(namespace.pnplace)
    ).scalars()
    return Publication(
        row.pubname,
        all_tables=row.puballtables,
        tables=tuple(_entry(one) for one in members if not one.prexcept),
        schemas=tuple(schemas),
        excepted=tuple((one.prschema, one.prrelname) for one in members if one.prexcept),
        publish=frozenset(operation for column, operation in _OPERATIONS.items() if getattr(row, column)),
        via_root=row.pubviaroot,
        generated_columns=_GENERATED[row.pubgencols],
        all_sequences=row.puballsequences,
    )


def _entry(row: sa.Row[tuple[Any, ...]]) -> TableEntry:
    columns = None if row.prattrs is None else tuple(row.prattrs)
    return TableEntry(row.prschema, row.prrelname, columns, row.prqual)
