"""The catalog of a publisher, and the conversions between its types."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze.coerce import Coercions
from subscriber.postgres.expressions.analyze.operators import Operators
from subscriber.postgres.expressions.analyze.typeinfo import Schemas, Types
from subscriber.postgres.expressions.builtin_catalog import Catalog, catalog_of
from tests.films import TABLES


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return catalog_of(TABLES.server_version, TABLES.own_objects, TABLES.search_path)


@pytest.fixture(scope="session")
def coercions(catalog: Catalog) -> Coercions:
    return Coercions(catalog)


@pytest.fixture(scope="session")
def types(coercions: Coercions) -> Types:
    return coercions.types


@pytest.fixture(scope="session")
def operators(coercions: Coercions) -> Operators:
    return Operators(coercions, Schemas(TABLES))
