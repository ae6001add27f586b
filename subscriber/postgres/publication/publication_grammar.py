"""CREATE, ALTER and DROP PUBLICATION in the grammar of PostgreSQL 19.

::

    CREATE PUBLICATION name [FOR { everything [, ...] | object [, ...] }]
        [WITH (option [= value] [, ...])]
    ALTER PUBLICATION name SET everything [, ...]
    ALTER PUBLICATION name { ADD | SET | DROP } object [, ...]
    ALTER PUBLICATION name SET (option [= value] [, ...])
    ALTER PUBLICATION name OWNER TO role
    ALTER PUBLICATION name RENAME TO name
    DROP PUBLICATION [IF EXISTS] name [, ...] [CASCADE | RESTRICT]

    everything ALL TABLES [EXCEPT (TABLE relation [, ...])] | ALL SEQUENCES
    object     TABLE relation [(column [, ...])] [WHERE (expression)] | TABLES IN SCHEMA { name | CURRENT_SCHEMA }
    relation   [ONLY] [[database.]schema.]name [*]

TABLE and TABLES IN SCHEMA apply to the names that follow, up to the next of them. The meaning of a
name is therefore not known while it is read: as gram.y, this reads the list first and then
classifies its elements (``preprocess_pubobj_list``), with errors in the same two steps.

The text of a filter is stored as written if it parses. Its names can only be resolved for a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.expressions.parse.parser import read_expression
from subscriber.postgres.publication import publication_statements
from subscriber.postgres.sql.cursor import (
    Cursor,
    read_label,
    read_name,
    read_names,
    read_options,
    read_role,
    read_with,
)
from subscriber.postgres.sql.lexer import syntax_error


def create_publication(cursor: Cursor) -> publication_statements.CreatePublication:
    name = read_name(cursor)
    specs: list[_Spec] = []
    everything: list[_All] = []
    if cursor.accept("for"):
        if cursor.at("all"):
            everything = _everything(cursor)
        else:
            specs = _specs(cursor)
    options = read_with(cursor)
    objects = _sorted_out(cursor, specs)
    found = _each_once(cursor, everything)
    cursor.end()
    return publication_statements.CreatePublication(name, objects, found, options)


def alter_publication(cursor: Cursor) -> publication_statements.AlterPublication:
    name = read_name(cursor)
    for word, read in _ALTER_FORMS.items():
        if cursor.accept(word):
            command = read(cursor, name)
            cursor.end()
            return command
    raise cursor.error()


def drop_publication(cursor: Cursor) -> publication_statements.DropPublication:
    if_exists = cursor.accept("if", "exists")
    names = read_names(cursor)
    if not cursor.accept("cascade"):
        cursor.accept("restrict")
    cursor.end()
    return publication_statements.DropPublication(names, if_exists)


COMMANDS: Final[Mapping[tuple[str, ...], Callable[[Cursor], publication_statements.PublicationCommand]]] = {
    ("create", "publication"): create_publication,
    ("alter", "publication"): alter_publication,
    ("drop", "publication"): drop_publication,
}


# ALTER PUBLICATION --------------------------------------------------------------------------------


def _set(cursor: Cursor, name: str) -> publication_statements.AlterPublication:
    if cursor.at("("):
        return publication_statements.AlterPublicationOptions(name, read_options(cursor))
    if cursor.at("all"):
        return publication_statements.AlterPublicationAll(name, _each_once(cursor, _everything(cursor)))
    return _objects(cursor, name, "set")


def _objects(
    cursor: Cursor, name: str, action: Literal["add", "set", "drop"]
) -> publication_statements.AlterPublicationObjects:
    return publication_statements.AlterPublicationObjects(name, action, _sorted_out(cursor, _specs(cursor)))


def _owner(cursor: Cursor, name: str) -> publication_statements.AlterPublicationOwner:
    cursor.expect("to")
    return publication_statements.AlterPublicationOwner(name, read_role(cursor))


def _rename(cursor: Cursor, name: str) -> publication_statements.RenamePublication:
    cursor.expect("to")
    return publication_statements.RenamePublication(name, read_name(cursor))


_ALTER_FORMS: Final[Mapping[str, Callable[[Cursor, str], publication_statements.AlterPublication]]] = {
    "set": _set,
    "add": lambda cursor, name: _objects(cursor, name, "add"),
    "drop": lambda cursor, name: _objects(cursor, name, "drop"),
    "owner": _owner,
    "rename": _rename,
}


# All tables and sequences -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _All:
    """``PublicationAllObjSpec``; ``start`` is the character index that errors point to."""

    start: int
    kind: Literal["TABLES", "SEQUENCES"]
    excepted: tuple[publication_statements.RelationName, ...] = ()


def _everything(cursor: Cursor) -> list[_All]:
    found: list[_All] = []
    while not found or cursor.accept(","):
        start = cursor.position
        cursor.expect("all")
        if cursor.accept("sequences"):
            found.append(_All(start, "SEQUENCES"))
        else:
            cursor.expect("tables")
            found.append(_All(start, "TABLES", _excepted(cursor)))
    return found


def _each_once(cursor: Cursor, found: list[_All]) -> publication_statements.AllObjects:
    """``preprocess_pub_all_objtype_list``"""
    kinds: dict[str, _All] = {}
    for one in found:
        if one.kind in kinds:
            error = syntax_error(cursor.sql, one.start, "invalid publication object list")
            error.detail = f"ALL {one.kind} can be specified only once."
            raise error
        kinds[one.kind] = one
    excepted = kinds["TABLES"].excepted if "TABLES" in kinds else ()
    return publication_statements.AllObjects("TABLES" in kinds, excepted, "SEQUENCES" in kinds)


# Tables and schemas -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spec:
    """``PublicationObjSpec``; ``kind`` None is that of the element before it."""

    kind: Literal["table", "schema"] | None
    start: int
    name: str | None = None
    table: publication_statements.TableObject | None = None


def _specs(cursor: Cursor) -> list[_Spec]:
    specs = [_spec(cursor)]
    while cursor.accept(","):
        specs.append(_spec(cursor))
    return specs


def _spec(cursor: Cursor) -> _Spec:
    start = cursor.position
    if cursor.accept("table"):
        return _Spec("table", start, table=_table(cursor, _relation(cursor)[0]))
    if cursor.accept("tables", "in"):
        cursor.expect("schema")
        name = None if cursor.accept("current_schema") else read_name(cursor)
        return _Spec("schema", start, name)
    if cursor.accept("current_schema"):
        return _Spec(None, start)
    relation, extended = _relation(cursor)
    table = _table(cursor, relation)
    if table == publication_statements.TableObject(publication_statements.RelationName(relation.name)) and not extended:
        return _Spec(None, start, name=relation.name)
    # gram.y does not keep the position of an element that has ONLY or *.
    return _Spec(None, 0 if extended else start, table=table)


def _table(cursor: Cursor, relation: publication_statements.RelationName) -> publication_statements.TableObject:
    columns = None
    if cursor.accept("("):
        columns = read_names(cursor)
        cursor.expect(")")
    return publication_statements.TableObject(relation, columns, _where(cursor))


def _relation(cursor: Cursor) -> tuple[publication_statements.RelationName, bool]:
    """Read ``relation_expr``; also returns whether it has ONLY or ``*``."""
    if cursor.accept("only"):
        inside = cursor.accept("(")
        relation = replace(read_relation_name(cursor), only=True)
        if inside:
            cursor.expect(")")
        return relation, True
    relation = read_relation_name(cursor)
    return relation, cursor.accept("*")


def read_relation_name(cursor: Cursor) -> publication_statements.RelationName:
    """``qualified_name``: a table, with its schema and database if they are given."""
    position = cursor.position
    names = [read_name(cursor)]
    whole = True
    while cursor.accept("."):
        if cursor.accept("*"):
            whole = False
        else:
            names.append(read_label(cursor))
    if not whole:
        raise cursor.error()
    if len(names) > 3:
        message = f"improper qualified name (too many dotted names): {'.'.join(names)}"
        raise syntax_error(cursor.sql, position, message)
    name, schema, database = (*reversed(names), None, None)[:3]
    return publication_statements.RelationName(name or "", schema, database)


def _excepted(cursor: Cursor) -> tuple[publication_statements.RelationName, ...]:
    if not cursor.accept("except"):
        return ()
    cursor.expect("(")
    cursor.expect("table")
    relations = [_relation(cursor)[0]]
    while cursor.accept(","):
        cursor.accept("table")
        relations.append(_relation(cursor)[0])
    cursor.expect(")")
    return tuple(relations)


def _where(cursor: Cursor) -> publication_statements.Filter | None:
    if not cursor.accept("where"):
        return None
    cursor.expect("(")
    place, position = cursor.place, cursor.position
    read_expression(cursor)
    text = cursor.text_from(place)
    cursor.expect(")")
    return publication_statements.Filter(text, position, cursor.sql)


def _sorted_out(cursor: Cursor, specs: list[_Spec]) -> tuple[publication_statements.PublicationObject, ...]:
    """``preprocess_pubobj_list``: the kind of each element."""

    def wrong(spec: _Spec, message: str, detail: str | None = None) -> SQLSyntaxError:
        error = syntax_error(cursor.sql, spec.start, message)
        error.detail = detail or error.detail
        return error

    objects: list[publication_statements.PublicationObject] = []
    kind: Literal["table", "schema"] | None = None
    for spec in specs:
        kind = spec.kind or kind
        if kind is None:
            raise wrong(
                spec,
                "invalid publication object list",
                "One of TABLE or TABLES IN SCHEMA must be specified before a standalone table or schema name.",
            )
        if kind == "table":
            if spec.name is None and spec.table is None:
                raise wrong(spec, "invalid table name")
            objects.append(
                spec.table or publication_statements.TableObject(publication_statements.RelationName(spec.name or ""))
            )
            continue
        if spec.table and spec.table.where:
            raise wrong(spec, "WHERE clause not allowed for schema")
        if spec.table and spec.table.columns:
            raise wrong(spec, "column specification not allowed for schema")
        if spec.table:
            raise wrong(spec, "invalid schema name")
        objects.append(publication_statements.SchemaMember(spec.name))
    return tuple(objects)
