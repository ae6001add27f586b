"""Whether the application has written to the target since the switch."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.migrate.cutover.cutover_servers import VerifyResult
from subscriber.migrate.cutover.run_cutover import check_unwritten
from tests.unit.migrate.cutover.fake_servers import FakeServers, a_work

EQUAL = {"is_equal": True, "lsn": "0/64"}
DIFFERENT = VerifyResult(False, LSN(200), ("public.t: 1 differing, 0 only at the publisher, 0 only in the target",))


def switched(servers=None, findings=None, **options):
    work, servers = a_work(servers, **options)
    work.save(state="switched", barrier=LSN(100), findings={"rows": {"public.t": 3}} if findings is None else findings)
    return work, servers


def refusal(work):
    with pytest.raises(UsageError) as caught:
        check_unwritten(work)
    assert caught.value.sqlstate == "55000"
    for way in ("nothing was undone", "--abandon --discard-writes", "subscriber cutover s --finish"):
        assert way in str(caught.value.hint)
    return caught.value


def test_before_the_switch_and_with_a_way_back_nothing_is_compared():
    work, servers = a_work()
    assert check_unwritten(work) is None
    work, servers = switched()
    work.remember("reverse", {"name": "r"})
    assert check_unwritten(work) is None
    assert servers.log == []


def test_a_way_back_that_somebody_has_dropped_proves_nothing_so_the_tables_are_compared():
    servers = FakeServers(verified=DIFFERENT, stands=False, rows={"public.t": 9})
    work, _ = switched(servers, {"verify": EQUAL})
    work.remember("reverse", {"name": "r"})
    assert refusal(work).message == "the application has written to the target since the switch"
    servers.verified = VerifyResult(True, LSN(200), ())
    assert check_unwritten(work) is not None


@pytest.mark.parametrize("rows", [{"public.t": 3}, {"public.u": 7}], ids=["the same", "the table is gone"])
def test_a_target_that_is_equal_to_the_publisher_may_be_left(rows):
    work, servers = switched(FakeServers(rows=rows))
    found = check_unwritten(work)
    assert found is not None
    assert found.text.startswith("publisher and target are equal at 0/C8")
    assert servers.log == ["verify_at_rest"]


def test_what_was_not_compared_is_said():
    report = {"tables": [{"table": "public.t", "notes": ["column b is not compared"]}]}
    work, _ = switched(FakeServers(verified=VerifyResult(True, LSN(200), (), report)))
    found = check_unwritten(work)
    assert found is not None
    assert found.details == ("public.t: column b is not compared",)


def test_more_or_fewer_rows_are_refused_without_a_comparison():
    work, servers = switched(FakeServers(rows={"public.t": 4}))
    found = refusal(work)
    assert found.message == "the application has written to the target since the switch"
    assert found.detail == '"public.t" had 3 rows and has 4'
    assert servers.log == []


def test_many_tables_that_were_written_are_told_in_short():
    work, servers = switched(findings={"rows": {f"t{number}": 0 for number in range(7)}})
    servers.rows = {f"t{number}": 1 for number in range(7)}
    assert str(refusal(work).detail).endswith("; and 2 more")


def test_an_update_is_known_if_both_were_equal_and_the_publisher_was_at_rest():
    work, _ = switched(FakeServers(verified=DIFFERENT), {"rows": {"public.t": 3}, "verify": EQUAL})
    found = refusal(work)
    assert found.message == "the application has written to the target since the switch"
    assert found.detail == DIFFERENT.differing[0]


def test_without_verify_at_the_switch_a_difference_may_be_an_old_one():
    work, _ = switched(FakeServers(verified=DIFFERENT))
    assert "was made without --verify, so it cannot be known" in refusal(work).message


def test_with_writes_at_the_publisher_it_is_not_known_which_side_has_changed():
    work, _ = switched(FakeServers(verified=DIFFERENT, published=True), {"rows": {"public.t": 3}, "verify": EQUAL})
    assert "the publisher was written to since the switch" in refusal(work).message


def test_giving_the_writes_up_looks_at_nothing():
    work, servers = switched(FakeServers(rows={"public.t": 4}), discard_writes=True)
    found = check_unwritten(work)
    assert found is not None
    assert not found.was_done
    assert servers.log == []
