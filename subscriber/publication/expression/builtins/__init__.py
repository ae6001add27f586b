"""What PostgreSQL has built in, as its own catalogs say: :mod:`.catalog` reads ``objects.tsv``, which ``tools/record_builtins.py`` wrote.

The same lines, listed by :mod:`.query` on the publisher, are what its users have added.
"""

from subscriber.publication.expression.builtins.catalog import Catalog, catalog_of
from subscriber.publication.expression.builtins.objects import Cast, Collation, Function, Operator, Type

__all__ = ["Cast", "Catalog", "Collation", "Function", "Operator", "Type", "catalog_of"]
