"""A filter's text → the tree that is evaluated, or the reason why not."""

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
    """The filter that ``WHERE (text)`` means for this table, if it can be evaluated here.

    Args:
        text: as it was written, or as ``pg_get_expr`` writes it; the parentheses around it may be
            there or not.
        table: whose rows are filtered.
        tables: the publisher's; its version, search path and collations count.

    Raises:
        SQLSyntaxError: 42601, it does not parse.
        UsageError: what PostgreSQL's parser says of names and types: 42703, 42883, 42725, 42804 and
            so on.
        NotSupportedError: 0A000, a publication may not have it (rule B23), or we do not compute it
            as the server does; by name.
    """
    found = analyze_filter(text, table, tables)
    check_supported(found, _types(tables), tables)
    return found


def analyze_filter(text: str, table: PublisherTable, tables: PublisherTables) -> tree.Expression:
    """The filter as CREATE PUBLICATION makes it on the server, whether we can evaluate it or not.

    Raises:
        SubscriberError: as :func:`check_filter`, for what the server refuses.
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
    """A filter in the form in which it is kept to be read again: as ``pg_get_expr`` would print it,
    with one exception.

    The server keeps a tree, in which a virtual generated column has become its expression,
    converted to the column's type; the text of that hides the conversion, with its rounding and its
    length. So a filter that names such a column is kept as it was written.

    Raises:
        SubscriberError: as :func:`check_filter`.
    """
    found = check_filter(text, table, tables)
    named = columns_of(_as_written(text, Analysis(_types(tables).catalog, table, tables), tables))
    virtual = {column.name for column in table.columns if column.generated == "virtual"}
    return text if named & virtual else filter_text(found, tables)


def filter_text(found: tree.Expression, tables: PublisherTables) -> str:
    """A checked filter as the publisher's ``pg_get_expr`` would print it: what its catalog
    shows.
    """
    return deparse(found, _types(tables))


def columns_of(node: tree.Expression) -> frozenset[str]:
    """The names of the columns that an expression uses (rules B33, B35)."""
    own = {node.name} if isinstance(node, tree.Column) else set()
    return frozenset(own).union(*map(columns_of, node.children))


def _as_written(text: str, analysis: Analysis, tables: PublisherTables) -> tree.Expression:
    """Before generated columns are expanded."""
    return analysis.filter(parse(text, _major(tables)))


def _major(tables: PublisherTables) -> int:
    return tables.server_version // 10000


def _types(tables: PublisherTables) -> Types:
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))
