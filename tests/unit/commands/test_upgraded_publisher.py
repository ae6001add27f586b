"""ALTER SUBSCRIPTION … SET (system_identifier): the checks before a subscription goes on with an
upgraded publisher.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import JournalGap, NotSupportedError, SlotInUse, SlotLost, UsageError
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.storage import journal_url, open_storage
from tests.scripted_publisher import PublishedSlot
from tests.streams import SYSTEM

NEW = "7600000000000000002"
FOLLOW = f"ALTER SUBSCRIPTION s SET (system_identifier = '{NEW}')"


@pytest.fixture
def upgraded(session, publisher):
    """A disabled subscription whose publisher went through pg_upgrade, and its journal."""
    session.subscribe(enabled=False, system_identifier=SYSTEM)
    session.make_journal()
    publisher.system_identifier = NEW
    publisher.slots["s"] = PublishedSlot(confirmed="0/800")
    return publisher


def test_the_journal_goes_on_under_the_new_identifier(session, upgraded):
    session.run(FOLLOW)
    assert session.subscription().system_identifier == NEW
    control = read_control(open_storage(journal_url(session.settings.journal, NEW, "s")))
    assert control is not None
    assert (control.system_identifier, control.received, control.timeline) == (NEW, 0x800, 0)
    assert read_control(open_storage(journal_url(session.settings.journal, SYSTEM, "s"))) is None


def test_a_command_that_was_interrupted_is_completed_by_a_second_one(session, upgraded):
    """The journal has its new name, and the catalog has not."""
    session.run(FOLLOW)
    with session.target.begin() as connection:
        connection.exec_driver_sql(f"UPDATE subscriber_subscription SET systemidentifier = '{SYSTEM}'")
    session.run(FOLLOW)
    assert session.subscription().system_identifier == NEW


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"enabled": True, "system_identifier": SYSTEM},
            'cannot set option "system_identifier" for enabled subscription',
        ),
        (
            {"enabled": False, "system_identifier": None},
            'cannot set option "system_identifier" for a subscription that has not replicated yet',
        ),
        (
            {"enabled": False, "system_identifier": SYSTEM, "slot_name": None},
            'cannot set option "system_identifier" for a subscription that has not replicated yet',
        ),
    ],
    ids=["enabled", "never connected", "no slot"],
)
def test_the_subscription_must_be_disabled_and_have_replicated(session, publisher, options, message):
    session.subscribe(**options)
    error = session.refused(FOLLOW)
    assert (type(error), error.message, error.sqlstate) == (UsageError, message, "55000")
    assert publisher.asked == []


def test_another_server_than_the_user_says_is_refused(session, upgraded):
    upgraded.system_identifier = "7700000000000000003"
    error = session.refused(FOLLOW)
    assert error.message == f"the publisher is system 7700000000000000003, not {NEW}"


def test_a_server_whose_slots_do_not_survive_an_upgrade_is_refused(session, upgraded):
    """pg_upgrade keeps logical slots from PostgreSQL 17 on."""
    upgraded.info.server_version = 160004
    error = session.refused(FOLLOW)
    assert isinstance(error, NotSupportedError)
    assert error.detail == "The publisher is PostgreSQL 16."


def test_a_slot_that_is_not_there_is_refused(session, upgraded):
    upgraded.slots.clear()
    error = session.refused(FOLLOW)
    assert isinstance(error, SlotLost)
    assert error.sqlstate == "42704"


def test_a_slot_that_is_behind_the_journal_is_not_that_of_the_upgraded_server(session, upgraded):
    upgraded.slots["s"] = PublishedSlot(confirmed="0/3FF")
    error = session.refused(FOLLOW)
    assert isinstance(error, JournalGap)
    assert error.message == "the slot is confirmed up to 0/3FF, but changes up to 0/400 were received"
    assert error.lsn == 0x400


def test_a_journal_on_another_machine_is_asked_for(session, upgraded, tmp_path):
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    error = session.refused(FOLLOW)
    assert isinstance(error, JournalGap)
    assert error.message == 'there is no journal of slot "s" here'
    assert session.settings.journal in str(error.hint)


def test_a_journal_that_is_being_written_is_left_alone(session, upgraded):
    storage = open_storage(journal_url(session.settings.journal, SYSTEM, "s"))
    with storage.lock() as locked:
        assert locked
        error = session.refused(FOLLOW)
    assert isinstance(error, SlotInUse)
    assert error.transient
