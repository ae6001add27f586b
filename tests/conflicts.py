"""The relations of tests about conflicts. Their tables are created by the fixture
``conflict_tables`` of tests/unit/apply.
"""

from __future__ import annotations

from subscriber.apply.conflicts.conflict import ChangePlace
from subscriber.base.lsn import LSN
from tests.frames import relation

T = relation("public.t", {"a": "int4", "b": "text", "c": "int4"}, ["a"])
F = relation("public.f", {"a": "int4", "b": "text"}, identity="f", oid=2)
AT = ChangePlace(xid=731, final_lsn=LSN(0x1000), timestamp=1_000_000)
