"""The script of ``subscriber schema diff --ddl`` runs as it is printed, for every target and model."""

from __future__ import annotations

import pathlib

import pytest

from subscriber.migration.schema.ddl_script import ddl_script
from subscriber.migration.schema.schema_difference import schema_difference
from tests.application import MODELS, PUBLICATION, load_model
from tests.subscribing import Session
from tests.target_databases import KINDS, opened

pytestmark = pytest.mark.server
CREATE = f"CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION {PUBLICATION} WITH (create_tables, enabled = false, create_slot = false, slot_name = none)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_dump(model, kind, request, publisher_database, tmp_path):
    publisher_database.execute(load_model(model))
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        pathlib.Path(f"/tmp/scripts/{model}-{kind}.sql").write_text(
            ddl_script(schema_difference(target, "s", session.settings))
        )
