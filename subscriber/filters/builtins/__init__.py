"""What PostgreSQL has built in, as its own catalogs say: :mod:`.builtin_catalog` reads
``objects.tsv``, which ``tools/record_builtins.py`` wrote.

The same lines, listed by :mod:`.catalog_query` on the publisher, are what its users have added.
"""

from subscriber.filters.builtins.builtin_catalog import Catalog, catalog_of
from subscriber.filters.builtins.catalog_rows import Cast, Collation, Function, Operator, Type

__all__ = ["Cast", "Catalog", "Collation", "Function", "Operator", "Type", "catalog_of"]
