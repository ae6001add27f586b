"""The report: everything is escaped, nothing is loaded, and both forms have the same content."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from subscriber.base.errors import UsageError
from subscriber.migrate.cutover.cutover_report import CutoverReport, StepResult, as_html, as_json, write_report

EVIL = '<script>alert("x")</script>&'


def a_report(**changes):
    return CutoverReport(
        **{
            "command": "cutover",
            "subscription": EVIL,
            "publisher": f"host={EVIL}",
            "target": EVIL,
            "options": {"timeout": 60.0},
            "begun_at": "2026-11-25T10:00:00.000+00:00",
            "ended_at": "2026-11-25T10:00:09.000+00:00",
            "state": "switched",
            "barrier": "0/64",
            "steps": [StepResult("barrier", EVIL, "done", 1.234, EVIL, (EVIL,))],
            "error": EVIL,
            "notes": [EVIL],
            "findings": {
                "verify": {
                    "lsn": "0/65",
                    "report": {
                        "tables": [
                            {"table": EVIL, "publisher_rows": 1, "target_rows": 1, "differing": 0, "only_publisher": 0,
                             "only_target": 0, "notes": [EVIL], "error": EVIL}
                        ]
                    },
                }
            },
            **changes,
        }
    )  # fmt: skip


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.open = []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, attributes))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_names_are_data_in_the_page():
    page = Tags()
    page.feed(as_html(a_report()))
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert {name for _, attributes in page.tags for name, _ in attributes} <= {"lang", "charset", "class"}
    assert page.text.count(EVIL) == 12
    assert "1.23 s" in page.text
    assert "compared at 0/65" in page.text


def test_both_forms_are_written_under_a_name_that_is_a_file_name(tmp_path):
    page, data = write_report(a_report(subscription="../a b"), tmp_path / "new" / "folder")
    assert page.name == "cutover-%2E%2E%2Fa%20b-20261125T100000.html"
    assert page.parent == data.parent == tmp_path / "new" / "folder"
    content = json.loads(data.read_text())
    assert content == json.loads(json.dumps(as_json(a_report(subscription="../a b"))))
    assert content["steps"][0]["seconds"] == 1.234


def test_a_folder_that_cannot_be_written_is_an_error_that_does_not_touch_the_cutover(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        write_report(a_report(), tmp_path / "file")
    assert caught.value.sqlstate == "58030"
    assert "not affected" in str(caught.value.hint)
