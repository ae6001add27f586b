"""The sessions of logical decoding in which each workload is decoded: plugin, options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.workloads.registry import Workload

WORK_MEM = 64 * 1024
"""The least ``logical_decoding_work_mem`` that a server takes, in bytes."""


@dataclass(frozen=True, slots=True)
class Run:
    """One session.

    Attributes:
        name: its name.
        plugin: the plugin.
        options: the plugin's options.
        two_phase: whether the slot decodes at PREPARE.
        immediate: ``debug_logical_replication_streaming``, which is there since 16.
        since: the first major version that has the options.
    """

    name: str
    plugin: Literal["pgoutput", "test_decoding"]
    options: tuple[tuple[str, str], ...] = ()
    two_phase: bool = False
    immediate: bool = False
    since: int = 15

    def options_for(self, workload: Workload) -> list[str]:
        """The array of options, as the SQL functions take it."""
        pairs = self.options
        if self.plugin == "pgoutput":
            pairs = (*pairs, ("publication_names", workload.publications))
        return [text for pair in pairs for text in pair]

    @property
    def parallel(self) -> bool:
        """Whether Stream Abort has the position and the time (rule A5)."""
        return ("streaming", "parallel") in self.options


def _pgoutput(
    name: str, version: int, *, two_phase: bool = False, immediate: bool = False, since: int = 15, **options: str
) -> Run:
    pairs = {"proto_version": str(version), **({"two_phase": "on"} if two_phase else {}), **options}
    return Run(name, "pgoutput", tuple(pairs.items()), two_phase, immediate, since)


def _test_decoding(
    name: str, *, two_phase: bool = False, immediate: bool = False, since: int = 15, **options: str
) -> Run:
    pairs = {option.replace("_", "-"): value for option, value in options.items()}
    return Run(name, "test_decoding", tuple(pairs.items()), two_phase, immediate, since)


RUNS: dict[str, Run] = {
    run.name: run
    for run in (
        _pgoutput("v1", 1),
        _pgoutput("v1-binary", 1, binary="true"),
        _pgoutput("v1-messages", 1, messages="on"),
        _pgoutput("v2-streaming", 2, streaming="on", messages="on"),
        _pgoutput("v2-immediate", 2, streaming="on", messages="on", immediate=True, since=16),
        _pgoutput("v3-two-phase", 3, two_phase=True),
        _pgoutput("v3-two-phase-streaming", 3, two_phase=True, streaming="on", binary="true"),
        _pgoutput("v4-origin-none", 4, origin="none", messages="on", since=16),
        _pgoutput("v4-parallel", 4, streaming="parallel", two_phase=True, messages="on", since=16),
        _pgoutput(
            "v4-parallel-immediate", 4, streaming="parallel", two_phase=True, origin="any", immediate=True, since=16
        ),
        _test_decoding("text"),
        _test_decoding("text-two-phase", two_phase=True, include_timestamp="on", skip_empty_xacts="1"),
        _test_decoding("text-local", include_xids="0", only_local="1", include_rewrites="1", force_binary="1"),
        _test_decoding("text-streaming", two_phase=True, stream_changes="1", include_timestamp="1"),
        _test_decoding("text-immediate", two_phase=True, stream_changes="1", immediate=True, since=16),
        _test_decoding(
            "text-immediate-skip-empty",
            stream_changes="1",
            include_xids="0",
            skip_empty_xacts="1",
            immediate=True,
            since=16,
        ),
    )
}
