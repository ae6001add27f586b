"""Turns the text of a row filter into a typed tree, or reports why the filter is refused."""

from __future__ import annotations

from subscriber.errors import NotSupportedError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.analyzer import Analysis
from subscriber.filters.analyze.deparse import deparse
from subscriber.filters.analyze.generated_columns import expand_generated_columns
from subscriber.filters.analyze.typeinfo import Types
from subscriber.filters.analyze.validate import validate
from subscriber.filters.builtins import catalog_of
from subscriber.filters.parse.parser import parse
from subscriber.filters.supported import check_supported
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables


def check_filter(text: str, table: PublisherTable, tables: PublisherTables) -> tree.Expression:
    """Return the expression that ``WHERE (text)`` means for this table.

    Args:
        text: the filter as a user wrote it, or as ``pg_get_expr`` prints it. Parentheses around the
            whole text are optional.
        table: the table whose rows are filtered.
        tables: the publisher's tables. The server version, the search path and the collations of
            the publisher are read from here.

    Raises:
        SQLSyntaxError: 42601, the text cannot be parsed.
        UsageError: PostgreSQL's error for a name or a type: 42703, 42883, 42725, 42804 and others.
        NotSupportedError: 0A000, a publication may not contain the expression (rule B23), or the
            subscriber does not compute it as the server does. The message names the part that is
            refused.
    """
    found = analyze_filter(text, table, tables)
    check_supported(found, _types(tables), tables)
    return found


def analyze_filter(text: str, table: PublisherTable, tables: PublisherTables) -> tree.Expression:
    """Return the filter as CREATE PUBLICATION stores it on the server.

    The result may contain functions that the subscriber cannot evaluate.

    Raises:
        SubscriberError: the server refuses the filter; the errors are those of
            :func:`check_filter`.
    """
    types = _types(tables)
    try:
        analysis = Analysis(types.catalog, table, tables)
        found = expand_generated_columns(_as_written(text, analysis, tables), analysis, _major(tables))
        validate(found, types.catalog)
    except RecursionError:
        raise NotSupportedError(
            "the row filter is nested too deeply", sqlstate="54001", hint="Write it with fewer levels of parentheses."
        ) from None
    return found


def kept_text(text: str, table: PublisherTable, tables: PublisherTables) -> str:
    """Return the text in which the catalog stores a filter.

    This is the text that ``pg_get_expr`` would print, with one exception. The server stores a tree,
    in which a virtual generated column is replaced by its expression, converted to the column's
    type. The printed text of that tree hides the conversion, and with it the rounding and the
    length limit. A filter that uses a virtual generated column is therefore stored as the user
    wrote it.

    Raises:
        SubscriberError: as :func:`check_filter`.
    """
    found = check_filter(text, table, tables)
    named = columns_of(_as_written(text, Analysis(_types(tables).catalog, table, tables), tables))
    virtual = {column.name for column in table.columns if column.generated == "virtual"}
    return text if named & virtual else filter_text(found, tables)


def filter_text(found: tree.Expression, tables: PublisherTables) -> str:
    """Return a checked filter as ``pg_get_expr`` prints it, which is what the publisher's catalog
    shows.
    """
    return deparse(found, _types(tables))


def columns_of(node: tree.Expression) -> frozenset[str]:
    """Return the names of the columns that an expression uses (rules B33, B35)."""
    own = {node.name} if isinstance(node, tree.Column) else set()
    return frozenset(own).union(*map(columns_of, node.children))


def _as_written(text: str, analysis: Analysis, tables: PublisherTables) -> tree.Expression:
    """Return the expression in which virtual generated columns are not yet expanded."""
    return analysis.filter(parse(text, _major(tables)))


def _major(tables: PublisherTables) -> int:
    return tables.server_version // 10000


def _types(tables: PublisherTables) -> Types:
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))
