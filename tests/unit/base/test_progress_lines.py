from __future__ import annotations

from subscriber.base.progress_lines import progress, shown_by


def test_what_is_told_is_shown_inside_the_block_only():
    shown: list[tuple[str, int, int]] = []
    progress("before", 1, 2)
    with shown_by(lambda *told: shown.append(told)):
        progress("reading")
        progress("comparing", 3, 5)
    progress("after")
    assert shown == [("reading", 0, 0), ("comparing", 3, 5)]
