from __future__ import annotations

import json

from subscriber.base.lsn import LSN
from subscriber.verify.report import DifferingKey, TableVerification, VerifyReport

EQUAL = TableVerification("public.a", "public.a", LSN(0x100), 3, 3)
BROKEN = TableVerification("public.b", "new.b", LSN(0x200), 3, 2, 1, 1, 0, ("v",), (DifferingKey("differing", ("1",)),))


def test_a_report_is_equal_if_every_table_was_compared_and_is_equal():
    assert VerifyReport("s", (EQUAL,)).is_equal
    assert VerifyReport("s", ()).is_equal
    assert not VerifyReport("s", (EQUAL, BROKEN)).is_equal
    assert not VerifyReport("s", (TableVerification("public.a", "public.a", error="ERROR:  not ready"),)).is_equal


def test_a_repaired_table_is_equal_unless_its_repair_failed():
    repaired = TableVerification("public.b", "public.b", LSN(1), 3, 2, 0, 1, 0, repaired=1)
    assert repaired.is_equal
    assert not TableVerification("public.b", "public.b", LSN(1), 3, 2, 0, 1, 0, repaired=1, error="ERROR:  no").is_equal


def test_the_lsn_is_the_last_one():
    assert VerifyReport("s", (BROKEN, EQUAL)).lsn == 0x200
    assert VerifyReport("s", ()).lsn is None


def test_json_has_everything():
    found = json.loads(json.dumps(VerifyReport("s", (EQUAL, BROKEN), 0.01).as_json()))
    assert (found["subscription"], found["lsn"], found["sample"], found["equal"]) == ("s", "0/200", 0.01, False)
    assert [one["equal"] for one in found["tables"]] == [True, False]
    assert found["tables"][1]["keys"] == [{"kind": "differing", "key": ["1"]}]
    assert found["tables"][1]["target_table"] == "new.b"
