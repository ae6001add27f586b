"""Findings, and how errors and notices become findings."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherUnavailable, TargetRelationError
from subscriber.commands.notices import notice, warning
from subscriber.migrate.findings import Finding, finding_of_error, finding_of_notice, has_failed


def test_an_error_is_a_fail_of_its_relation():
    error = TargetRelationError("no column", detail="It is missing.", hint="Add it.", relation="public.t")
    assert finding_of_error(error, "target", "other") == Finding(
        severity="FAIL",
        area="target",
        object="public.t",
        message="no column",
        reason="It is missing.",
        remedy="Add it.",
    )


def test_an_error_without_a_relation_has_the_given_object_and_one_line():
    found = finding_of_error(PublisherUnavailable("refused\n\tIs it running?"), "publisher", "CONNECTION")
    assert (found.object, found.message) == ("CONNECTION", "refused Is it running?")


def test_a_name_with_a_line_break_is_kept():
    error = TargetRelationError('relation "public.a\n b" does not exist')
    assert finding_of_error(error, "target", "t").message == 'relation "public.a\n b" does not exist'
    said: list[str] = []
    warning(said.append, 'no "a\nb"', detail='of "c\nd"', hint="what")
    assert finding_of_notice(said[0], "tables", "t") == Finding(
        severity="WARN", area="tables", object="t", message='no "a\nb"', reason='of "c\nd"', remedy="what"
    )


def test_a_warning_of_a_command_is_a_warn_with_reason_and_remedy():
    said: list[str] = []
    warning(said.append, "a: b", detail="why", hint="what")
    notice(said.append, "a fact")
    assert [finding_of_notice(text, "tables", "t") for text in said] == [
        Finding(severity="WARN", area="tables", object="t", message="a: b", reason="why", remedy="what"),
        Finding(severity="INFO", area="tables", object="t", message="a fact"),
    ]


@pytest.mark.parametrize(("severities", "failed"), [((), False), (("INFO", "WARN"), False), (("INFO", "FAIL"), True)])
def test_findings_have_failed_if_one_is_a_fail(severities, failed):
    found = [Finding(severity=one, area="target", object="t", message="m") for one in severities]
    assert has_failed(found) == failed
