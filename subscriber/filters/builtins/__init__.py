"""Holds the catalogs of PostgreSQL: types, operators, functions, casts and collations.

::

    tools/record_builtins.py ──▶ objects.tsv ─┐
                                              ├──builtin_catalog──▶ Catalog
    the publisher ──catalog_query──▶ lines ───┘

:mod:`.catalog_query` has the SQL that lists catalog objects as lines. ``tools/record_builtins.py``
records the built-in objects of some versions in ``objects.tsv``. The same SQL lists the objects
that users have added to a publisher. :mod:`.catalog_rows` defines the rows, and
:mod:`.builtin_catalog` finds objects by name, OID or signature.

The functions themselves are in :mod:`subscriber.filters.functions`.
"""

from subscriber.filters.builtins.builtin_catalog import Catalog, catalog_of
from subscriber.filters.builtins.catalog_rows import Cast, Collation, Function, Operator, Type

__all__ = ["Cast", "Catalog", "Collation", "Function", "Operator", "Type", "catalog_of"]
