r"""The backslash commands. tests/conformance/test_sql_terminal.py compares them with psql's, and
``\\dRp`` is in test_describe_publications.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription, set_options, set_skip_lsn
from subscriber.cli.backslash import COMMANDS_HELP, SQL_HELP, run_backslash
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS
from subscriber.targets import Target, open_target


def test_subscriptions_are_listed_as_in_psql(run, target):
    code, out, _ = run("sql", "--target", target, "-c", r"\dRs")
    assert (code, out) == (
        0,
        "    List of subscriptions\n Name | Enabled | Publication \n------+---------+-------------\n(0 rows)\n\n",
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (r"\dt", r"invalid command \dt"),
        (r"\dRs x", r"\dRs takes no argument"),
        (r"\dRp x y", r"\dRp takes one argument"),
        (r"\dRp a.b", "improper qualified name (too many dotted names): a.b"),
    ],
)
def test_an_unknown_backslash_command_is_refused(run, target, typed, said):
    code, _, err = run("sql", "--target", target, "-c", typed)
    assert (code, err.splitlines()[0]) == (1, f"ERROR:  {said}")


def test_every_backslash_command_is_in_the_help(run, target):
    _, out, _ = run("sql", "--target", target, "-c", r"\?")
    assert [name for name in (r"\dRp[+]", r"\dRs[+]", r"\h", r"\?", r"\q") if name not in out] == []


@pytest.fixture
def subscribed(target):
    """A target with a subscription."""
    with open_target(target) as opened:
        ensure_catalog(opened.engine)
        with opened.begin() as connection:
            insert_subscription(
                connection,
                "s",
                "host=h password=hush",
                ["p", "two words", "null"],
                SubscriptionOptions(binary=True),
                "1",
            )
            set_skip_lsn(connection, 1, LSN(0x100))
        yield opened


def lines(command: str, target: Target, version: int = 18) -> list[list[str]]:
    """The columns of each line of a table, without its title and its number of rows."""
    _, headings, _, *rows = run_backslash(command, target, version).splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in (headings, *rows) if "|" in line]


def test_a_subscription_has_a_row(subscribed):
    """Names are quoted in an array as array_out does it."""
    assert lines(r"\dRs", subscribed) == [["Name", "Enabled", "Publication"], ["s", "t", '{p,"two words","null"}']]


def test_a_subscription_is_described_without_its_password(subscribed):
    """names_are_data"""
    headings, row = lines(r"\dRs+", subscribed)
    described = dict(zip(headings, row, strict=True))
    assert (described["Name"], described["Binary"], described["Origin"]) == ("s", "t", "any")
    assert (described["Two-phase commit"], described["Skip LSN"]) == ("d", "0/100")
    assert "host=h" in described["Conninfo"]
    assert "hush" not in described["Conninfo"]


def test_a_subscription_is_described_as_its_version_does(subscribed):
    """A19a"""
    headings, row = lines(r"\dRs+", subscribed, 19)
    described = dict(zip(headings, row, strict=True))
    assert (described["Skip LSN"], described["Description"]) == ("0/00000100", "")
    assert headings.index("Conninfo") == headings.index("Synchronous commit") + 1


@pytest.mark.parametrize(
    ("command", "text"), [(r"\h", SQL_HELP), (r"\help", SQL_HELP), (r"\?", COMMANDS_HELP)], ids=str
)
def test_help_needs_no_catalog(target, command, text):
    with open_target(target) as opened:
        assert run_backslash(command, opened) == text


@pytest.mark.parametrize("command", [r"\dRp ;", r'\dRp "P3"', r"\dRp p*;"])
def test_a_pattern_may_be_quoted_and_end_with_a_semicolon(subscribed, command):
    assert run_backslash(command, subscribed).splitlines()[0].strip() == "List of publications"


def test_upper_and_lower_case_are_different_commands(subscribed):
    with pytest.raises(UsageError, match=r"^invalid command \\drs$"):
        run_backslash(r"\drs", subscribed)


def test_conflict_resolvers_have_a_column_where_a_subscription_has_any(subscribed):
    headings, _ = lines(r"\dRs+", subscribed)
    assert "Conflict Resolvers" not in headings
    with subscribed.begin() as connection:
        resolvers = NO_RESOLVERS.altered({"insert_exists": "keep_local"})
        set_options(connection, 1, {"conflict_resolvers": resolvers})
    headings, row = lines(r"\dRs+", subscribed)
    assert dict(zip(headings, row, strict=True))["Conflict Resolvers"] == "insert_exists = keep_local"
    assert "Conflict Resolvers" not in lines(r"\dRs", subscribed)[0]
