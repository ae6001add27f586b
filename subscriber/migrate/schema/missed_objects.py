"""What an application would miss in the target beside tables and their constraints: views,
triggers, sequences, types, and user-defined functions that objects call.

A target with PostgreSQL's expressions builds an object only when the functions that it calls are
there. Collations and text search configurations are treated like functions, and so are the types of
a function's arguments. Functions are not created by ``schema apply``. The script creates them, for
a user who has read it: a function can do anything, and its body may name tables that the target
does not have. So an object that calls a function waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.migrate.schema.schema_object import VIEWS, Missing, PublisherSchema, SchemaObject, TargetSchema
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.schema.shape import SchemaDifference as Difference
from subscriber.postgres.schema.shape import StandaloneSequence, UserFunction, UserType, kind_of_called
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.table_checks import Parent
from subscriber.targets import Connection, Target
from subscriber.targets.table_changes import NO_TABLE, FoundObjects, NewSequence, NewUserType, TableChange

_KINDS: Final = {
    "default": "default",
    "different default": "default",
    "generated column": "default",
    "column type": "default",
    "check constraint": "check",
    "unmet check": "check",
    "partitions": "partitions",
    "unique key": "index",
    "unique index": "index",
    "index": "index",
    "exclusion constraint": "index",
    "partitioned table": "partitions",
    "trigger": "trigger",
}
"""The kinds of objects that can call a function, by the words of :attr:`PublisherTable.calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """Of the publisher, functions in the order of their creation and types by OID; of the target,
    definitions and names, and whether its objects can call functions.
    """

    published: Sequence[UserFunction] = ()
    types: Mapping[int, UserType] = field(default_factory=dict)
    present: Mapping[str, str] = field(default_factory=dict)
    present_types: Collection[str] = ()
    are_called: bool = False

    def waiting(self, one: SchemaObject, calls: Iterable[str]) -> SchemaObject:
        lacking = tuple(name for name in calls if name not in self.present)
        if not lacking:
            return one
        called = f"{_calls(lacking)}, which the target lacks"
        if one.phase == "manual":
            reason = f"{one.reason}; {called}" if one.kind == "trigger" else one.reason
            return replace(one, reason=reason, waits_for=lacking)
        if not self.are_called:
            return one
        return replace(one, reason=f"{called}: create {'them' if len(lacking) > 1 else 'it'} first", waits_for=lacking)

    def places(self) -> dict[str, int]:
        """An order of creation: each after those that it needs, unless they call each other."""
        needs: dict[str, Sequence[str]] = {one.name: self._needs(one) for one in self.published}
        needs |= {type_name(made): (*map(type_name, made.needs), *made.calls) for made in self.types.values()}
        found: dict[str, int] = {}
        begun: set[str] = set()
        for first in needs:
            # A stack in place of recursion: functions may call each other in long chains.
            path = [(first, iter(needs[first]))]
            begun.add(first)
            while path:
                name, left = path[-1]
                below = next((one for one in left if one in needs and one not in begun), None)
                if below is not None:
                    begun.add(below)
                    path.append((below, iter(needs[below])))
                else:
                    path.pop()
                    found.setdefault(name, len(found))
        return found

    def _needs(self, function: UserFunction) -> tuple[str, ...]:
        return (*(type_name(self.types[oid]) for oid in function.types if oid in self.types), *function.needs)

    def left_out(self, objects: Sequence[SchemaObject]) -> Iterator[SchemaObject]:
        """What the target lacks, each with the objects that call it, directly or through others."""
        callers = self._callers(objects)
        places = self.places()
        for function in self.published:
            needed_by = tuple(callers.get(function.name, ()))
            present = self.present.get(function.name)
            is_function = function.kind == "function"
            if not needed_by and (function.extension or not is_function):
                continue  # one that something calls, and the target has
            if is_function and not function.ddl:
                reason = "it is an aggregate function"
            elif not self.are_called:
                reason = "its language is the publisher's" + (f"; {_needed(needed_by)}" if needed_by else "")
            elif present is None:
                reason = f"create it by hand; {_needed(needed_by)}" if needed_by else "functions are not created"
            elif is_function and present != function.ddl:
                reason = "the target has another definition of it"
            else:
                continue
            yield SchemaObject(
                kind=function.kind,
                name=function.name.removeprefix(f"{function.kind} "),
                phase="manual",
                reason=reason,
                publisher_ddl=function.ddl,
                needed_by=needed_by if self.are_called else (),
                schema=function.schema,
                order=places[function.name],
            )
        known = {type_name_of(one) for one in objects if one.kind == "type"}
        for made in self.types.values():
            name = type_name(made)
            if self.are_called and name in callers and name not in known:
                needed_by = tuple(callers[name])
                reason = f"create it by hand; {_needed(needed_by)}"
                yield SchemaObject(
                    kind="type", name=f"{made.schema}.{made.name}", phase="manual", reason=reason,
                    publisher_ddl=made.ddl, needed_by=needed_by, schema=made.schema, order=places[name],
                )  # fmt: skip

    def _callers(self, objects: Sequence[SchemaObject]) -> dict[str, list[str]]:
        """For everything that an object of the target calls and the target lacks, what calls it."""
        needs: dict[str, Sequence[str]] = {one.name: self._needs(one) for one in self.published}
        needs |= {type_name(made): (*map(type_name, made.needs), *made.calls) for made in self.types.values()}
        found: dict[str, list[str]] = {}
        left = [(name, f"{one.kind} {one.name}") for one in objects for name in one.waits_for]
        while left:
            name, caller = left.pop(0)
            if name in self.present or name.removeprefix("type ") in self.present_types:
                continue
            is_new = name not in found
            found.setdefault(name, []).append(caller)
            if is_new:
                shown = name if name.startswith("type ") or kind_of_called(name) != "function" else f"function {name}"
                left += [(needed, shown) for needed in needs.get(name, ())]
        return found


def type_name(made: UserType) -> str:
    return f"type {made.schema}.{made.name}"


def type_name_of(one: SchemaObject) -> str:
    return f"type {one.name}"


def calls_of(objects: PublisherTable, missing: Missing) -> tuple[str, ...]:
    found = objects.calls.get((_KINDS.get(missing.kind, ""), missing.name), ())
    if missing.kind == "column type":
        found = (*found, *calls_of_type(objects.types[missing.name][0]))
    return tuple(dict.fromkeys(found))


def calls_of_type(made: UserType) -> tuple[str, ...]:
    """The functions that a type calls, and those of the types that it is made of."""
    return (*(name for other in made.needs for name in calls_of_type(other)), *made.calls)


def _calls(names: Sequence[str]) -> str:
    if all(kind_of_called(name) == "function" for name in names):
        return f"it calls function{'s' if len(names) > 1 else ''} {', '.join(names)}"
    return f"it needs {', '.join(f'function {one}' if kind_of_called(one) == 'function' else one for one in names)}"


def _needed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{shown}{more} {'needs' if len(names) == 1 else 'need'} it"


# Objects without a table --------------------------------------------------------------------------


def objects_without_tables(
    target: Target,
    connection: Connection,
    published: PublisherSchema,
    names: RelationNames,
    functions: Functions,
    there: TargetSchema,
) -> Iterator[SchemaObject]:
    yield from _others(published, functions, there)
    if not target.capabilities.postgresql_types:
        yield from _without_inheritance(target, published.parents)
    yield from _sequences(target, connection, published.sequences, names)
    if target.capabilities.postgresql_types:
        yield from _types(target, connection, published.objects, functions)


def _others(published: PublisherSchema, functions: Functions, there: TargetSchema) -> Iterator[SchemaObject]:
    """Views, triggers and others that are not built, without those that somebody has built."""
    tables = {one.qualified_name: one for one in published.objects}
    for one in published.others:
        difference, relation = one.difference, one.relation
        with_schema = difference.kind in (*VIEWS, "shared sequence")
        calls: tuple[str, ...] = ()
        if difference.kind in VIEWS and view_place(difference) in there.tables:
            continue
        if difference.kind == "trigger":
            shape = tables[relation]
            table = there.tables.get((shape.schema, shape.name))
            if table is not None and difference.object in there.found.get(table, FoundObjects()).triggers:
                continue
            calls = tables[relation].calls.get(("trigger", difference.object), ())
        made = SchemaObject(
            kind=difference.kind,
            name=difference.object if with_schema else f"{relation}.{difference.object}",
            phase="manual",
            reason=difference.reason,
            publisher_ddl=difference.ddl,
            relation=relation,
            order=published.view_depths.get(difference.object, 0) if with_schema else 0,
        )
        yield functions.waiting(made, calls)


def _without_inheritance(target: Target, parents: Sequence[Parent]) -> Iterator[SchemaObject]:
    """The tables of which a query returns other rows than at the publisher."""
    for one in parents:
        if not one.partitioned and one.rows:
            reason = (
                f"{target.capabilities.database} has no inheritance: a query of the table also returns {one.rows_shown} of"
                f" {one.children_shown} at the publisher, and not in the target"
            )
            yield SchemaObject(
                kind="inheritance", name=one.qualified_name, phase="manual", reason=reason, relation=one.qualified_name
            )


def _sequences(
    target: Target, connection: Connection, sequences: Sequence[StandaloneSequence], names: RelationNames
) -> Iterator[SchemaObject]:
    for one in sequences:
        schema, name = names.in_target(one.schema, one.name)
        shown = f"{one.schema}.{one.name}"
        if not target.capabilities.postgresql_types:
            reason = f"no column owns it; an application that uses it by name needs a sequence of {target.capabilities.database}"
            ddl = f"CREATE SEQUENCE {quote_identifier(one.schema)}.{quote_identifier(one.name)} {one.ddl}"
            yield SchemaObject(kind="sequence", name=shown, phase="manual", reason=reason, publisher_ddl=ddl)
        elif not target.objects.exists(connection, schema, name):
            yield _created(target, connection, "sequence", shown, NewSequence(schema, name, one.ddl))


def _types(
    target: Target, connection: Connection, tables: Sequence[PublisherTable], functions: Functions
) -> Iterator[SchemaObject]:
    wanted: dict[int, UserType] = {}
    for objects in tables:
        for made, _ in objects.types.values():
            add_type(made, wanted)
    # The place keeps a type behind what it needs.
    places = functions.places()
    for made in wanted.values():
        if target.objects.exists(connection, made.schema, made.name):
            continue
        name = f"{made.schema}.{made.name}"
        if made.ddl:
            one = _created(target, connection, "type", name, NewUserType(made.schema, made.ddl))
            yield functions.waiting(replace(one, order=places[type_name(made)]), calls_of_type(made))
        else:
            yield SchemaObject(kind="type", name=name, phase="manual", reason="its definition is not known")


def add_type(made: UserType, wanted: dict[int, UserType]) -> None:
    for other in made.needs:
        add_type(other, wanted)
    wanted[made.oid] = made


def _created(target: Target, connection: Connection, kind: str, name: str, change: TableChange) -> SchemaObject:
    sql = target.objects.statements(connection, NO_TABLE, change).sql
    return SchemaObject(kind=kind, name=name, phase="before", ddl=";\n".join(sql), change=change)


def view_place(difference: Difference) -> TableName:
    schema, _, name = difference.object.partition(".")
    return schema, name
