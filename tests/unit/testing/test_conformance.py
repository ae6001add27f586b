"""The conformance kit notices what it is for; tests/targets has what it finds in each target."""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner

from subscriber.base.errors import NotSupportedError, TargetError, TargetRelationError, UsageError
from subscriber.cli import cli
from subscriber.targets import Target, open_target
from subscriber.testing import conformance_kit
from subscriber.testing.conformance_kit import CheckOutcome, check_conformance
from subscriber.testing.conformance_storage import Check


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 't.db'}"


@pytest.fixture
def only(monkeypatch):
    """Limit the kit to the checks with a name, in a target that is altered first."""

    def limit(name: str, alter=lambda target: None) -> None:
        found = [one for one in conformance_kit._CHECKS if name in one.name]
        assert found
        run = [Check(one.area, one.name, partial(_altered, alter, one.run)) for one in found]
        monkeypatch.setattr(conformance_kit, "_QUICK", tuple(run))

    return limit


def _altered(alter, run, target: Target):
    alter(target)
    return run(target)


def test_a_value_that_comes_back_changed_fails(url, only, monkeypatch):
    def alter(target: Target) -> None:
        bind = target.values.bind_values
        monkeypatch.setattr(
            target.values,
            "bind_values",
            lambda oid, column, values: [
                one.strip() if isinstance(one, str) else one for one in bind(oid, column, values)
            ],
        )

    only("text", alter)
    found = {one.check: one for one in check_conformance(url, quick=True)}
    assert found["text"] == CheckOutcome("values", "text", "fails", "come back changed: ' two  blanks '")
    assert found["text[]"].verdict == "holds"


def test_a_target_without_rollback_fails(url, only):
    only(
        "all or nothing",
        lambda target: target.engine.dialect.__setattr__("do_rollback", target.engine.dialect.do_commit),
    )
    assert [one.verdict for one in check_conformance(url, quick=True)] == ["fails"]


@pytest.mark.parametrize(
    ("error", "verdict", "detail"),
    [
        (NotSupportedError("it has no such tables"), "refused", "it has no such tables"),
        (TargetRelationError("its rows are alike"), "refused", "its rows are alike"),
        (TargetError("a statement failed"), "fails", "TargetError: a statement failed"),
    ],
)
def test_an_error_that_refuses_is_no_failure(url, only, error, verdict, detail):
    def alter(_target: Target) -> None:
        raise error

    only("nothing is applied twice", alter)
    (found,) = check_conformance(url, quick=True)
    assert (found.verdict, found.detail) == (verdict, detail)


def test_a_database_that_is_in_use_is_refused_and_stays_as_it_is(url):
    with open_target(url) as target:
        with target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE conformance_t (a INTEGER)")
        with pytest.raises(UsageError, match="in use"):
            next(check_conformance(url, quick=True))
        assert target.query("SELECT count(*) FROM conformance_t").rows == [("0",)]


def test_nothing_is_left(url, only):
    only("primary key, one transaction")
    assert [one.verdict for one in check_conformance(url, quick=True)] == ["holds"]
    with open_target(url) as target:
        assert target.query("SELECT count(*) FROM sqlite_master").rows == [("0",)]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_ends_with_a_table_and_fails_if_a_check_fails(url, only, as_json):
    only("smallint")
    arguments = ["conformance", "--target", url, "--quick", *(["--json"] if as_json else [])]
    answer = CliRunner().invoke(cli, arguments)
    assert answer.exit_code == 0
    if as_json:
        assert json.loads(answer.output) == [{"area": "values", "check": "smallint", "verdict": "holds", "detail": ""}]
    else:
        assert answer.output.splitlines()[-1] == "1 hold, 0 refused, 0 failed"
    only("smallint", lambda target: target.values.__setattr__("check_column", _failed))
    assert CliRunner().invoke(cli, arguments).exit_code == 1


def _failed(*_: object) -> None:
    raise TargetError("no")
