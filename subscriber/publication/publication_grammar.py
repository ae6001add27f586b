"""CREATE, ALTER and DROP PUBLICATION in the grammar of PostgreSQL 18, and EXCEPT of 19.

::

    CREATE PUBLICATION name [FOR ALL TABLES [EXCEPT (TABLE relation [, ...])] | FOR object [, ...]]
        [WITH (option [= value] [, ...])]
    ALTER PUBLICATION name { ADD | SET | DROP } object [, ...]
    ALTER PUBLICATION name SET (option [= value] [, ...])
    ALTER PUBLICATION name OWNER TO role
    ALTER PUBLICATION name RENAME TO name
    DROP PUBLICATION [IF EXISTS] name [, ...] [CASCADE | RESTRICT]

    object     TABLE relation [(column [, ...])] [WHERE (expression)] | TABLES IN SCHEMA { name | CURRENT_SCHEMA }
    relation   [ONLY] [[database.]schema.]name [*]

TABLE and TABLES IN SCHEMA apply to the names that follow, up to the next TABLE or TABLES IN SCHEMA.
The meaning of such a name is therefore not known while it is read. gram.y reads the list first and
then classifies its elements (``preprocess_pubobj_list``). Errors are raised in the same two steps
here.

The text of a filter is stored as written if it parses. Its names can only be resolved for a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from subscriber.errors import SQLSyntaxError
from subscriber.filters.parse.parser import read_expression
from subscriber.publication.publication_statements import (
    AlterPublication,
    AlterPublicationObjects,
    AlterPublicationOptions,
    AlterPublicationOwner,
    CreatePublication,
    DropPublication,
    Filter,
    PublicationCommand,
    PublicationObject,
    RelationName,
    RenamePublication,
    SchemaObject,
    TableObject,
)
from subscriber.sql.cursor import Cursor, read_label, read_name, read_names, read_options, read_role, read_with
from subscriber.sql.lexer import syntax_error


def create_publication(cursor: Cursor) -> CreatePublication:
    """Parse what follows CREATE PUBLICATION.

    Raises:
        SQLSyntaxError: it does not parse.
    """
    name = read_name(cursor)
    specs: list[_Spec] = []
    all_tables = False
    excepted: tuple[RelationName, ...] = ()
    if cursor.accept("for"):
        if cursor.accept("all"):
            cursor.expect("tables")
            all_tables = True
            excepted = _excepted(cursor)
        else:
            specs = _specs(cursor)
    options = read_with(cursor)
    objects = _sorted_out(cursor, specs)
    cursor.end()
    return CreatePublication(name, objects, all_tables, excepted, options)


def alter_publication(cursor: Cursor) -> AlterPublication:
    """Parse what follows ALTER PUBLICATION.

    Raises:
        SQLSyntaxError: it does not parse.
    """
    name = read_name(cursor)
    for word, read in _ALTER_FORMS.items():
        if cursor.accept(word):
            command = read(cursor, name)
            cursor.end()
            return command
    raise cursor.error()


def drop_publication(cursor: Cursor) -> DropPublication:
    """Parse what follows DROP PUBLICATION.

    Raises:
        SQLSyntaxError: it does not parse.
    """
    if_exists = cursor.accept("if", "exists")
    names = read_names(cursor)
    if not cursor.accept("cascade"):
        cursor.accept("restrict")
    cursor.end()
    return DropPublication(names, if_exists)


COMMANDS: Final[Mapping[tuple[str, ...], Callable[[Cursor], PublicationCommand]]] = {
    ("create", "publication"): create_publication,
    ("alter", "publication"): alter_publication,
    ("drop", "publication"): drop_publication,
}
"""The parsers of the commands, by their first two words."""


# ALTER PUBLICATION --------------------------------------------------------------------------------


def _set(cursor: Cursor, name: str) -> AlterPublicationObjects | AlterPublicationOptions:
    return AlterPublicationOptions(name, read_options(cursor)) if cursor.at("(") else _objects(cursor, name, "set")


def _objects(cursor: Cursor, name: str, action: Literal["add", "set", "drop"]) -> AlterPublicationObjects:
    return AlterPublicationObjects(name, action, _sorted_out(cursor, _specs(cursor)))


def _owner(cursor: Cursor, name: str) -> AlterPublicationOwner:
    cursor.expect("to")
    return AlterPublicationOwner(name, read_role(cursor))


def _rename(cursor: Cursor, name: str) -> RenamePublication:
    cursor.expect("to")
    return RenamePublication(name, read_name(cursor))


_ALTER_FORMS: Final[Mapping[str, Callable[[Cursor, str], AlterPublication]]] = {
    "set": _set,
    "add": lambda cursor, name: _objects(cursor, name, "add"),
    "drop": lambda cursor, name: _objects(cursor, name, "drop"),
    "owner": _owner,
    "rename": _rename,
}
"""The parsers of what follows the name, by its first word."""


# Tables and schemas -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spec:
    """``PublicationObjSpec``: an element of the list as it was read.

    Attributes:
        kind: the written kind; None if the element has the kind of the element before it.
        start: the character index that errors point to.
        name: a name without further parts.
        table: a table's name with its column list and filter. An element with CURRENT_SCHEMA has
            neither ``name`` nor ``table``.
    """

    kind: Literal["table", "schema"] | None
    start: int
    name: str | None = None
    table: TableObject | None = None


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
    if table == TableObject(RelationName(relation.name)) and not extended:
        return _Spec(None, start, name=relation.name)
    # gram.y does not keep the position of an element that has ONLY or *.
    return _Spec(None, 0 if extended else start, table=table)


def _table(cursor: Cursor, relation: RelationName) -> TableObject:
    columns = None
    if cursor.accept("("):
        columns = read_names(cursor)
        cursor.expect(")")
    return TableObject(relation, columns, _where(cursor))


def _relation(cursor: Cursor) -> tuple[RelationName, bool]:
    """Read ``relation_expr``; also returns whether it has ONLY or ``*``."""
    if cursor.accept("only"):
        inside = cursor.accept("(")
        relation = replace(read_relation_name(cursor), only=True)
        if inside:
            cursor.expect(")")
        return relation, True
    relation = read_relation_name(cursor)
    return relation, cursor.accept("*")


def read_relation_name(cursor: Cursor) -> RelationName:
    """Read ``qualified_name``: the name of a table, with its schema and database if they are given.

    Raises:
        SQLSyntaxError: 42601, something else comes next, or there are too many names.
    """
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
    return RelationName(name or "", schema, database)


def _excepted(cursor: Cursor) -> tuple[RelationName, ...]:
    """Read ``EXCEPT (TABLE relation [, [TABLE] relation …])``."""
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


def _where(cursor: Cursor) -> Filter | None:
    if not cursor.accept("where"):
        return None
    cursor.expect("(")
    place, position = cursor.place, cursor.position
    read_expression(cursor)
    text = cursor.text_from(place)
    cursor.expect(")")
    return Filter(text, position, cursor.sql)


def _sorted_out(cursor: Cursor, specs: list[_Spec]) -> tuple[PublicationObject, ...]:
    """``preprocess_pubobj_list``: the kind of each element.

    Raises:
        SQLSyntaxError: an element does not fit its kind.
    """

    def wrong(spec: _Spec, message: str, detail: str | None = None) -> SQLSyntaxError:
        error = syntax_error(cursor.sql, spec.start, message)
        error.detail = detail or error.detail
        return error

    objects: list[PublicationObject] = []
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
            objects.append(spec.table or TableObject(RelationName(spec.name or "")))
            continue
        if spec.table and spec.table.where:
            raise wrong(spec, "WHERE clause not allowed for schema")
        if spec.table and spec.table.columns:
            raise wrong(spec, "column specification not allowed for schema")
        if spec.table:
            raise wrong(spec, "invalid schema name")
        objects.append(SchemaObject(spec.name))
    return tuple(objects)
