"""What was seen of shared memory counts for the same card and driver, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pool.device.proof import NEEDED, OPENED, PROBES, STOPPED, TRAINED, Record, Setup, read_records, write_record

SETUP = Setup("A100", "580.1", mps=False)
RECORD = Record(SETUP, "2026-11-23", {**dict.fromkeys(PROBES, ""), STOPPED: "memory changed for 25 ms more"})


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sparsepool/shared-memory.json"


def test_what_is_noted_is_read_and_takes_the_place_of_what_was_seen_with_the_same_setup() -> None:
    other = replace(RECORD, setup=replace(SETUP, card="H100"))
    write_record(RECORD)
    write_record(other)
    newer = replace(RECORD, day="2026-12-01")
    write_record(newer)
    assert read_records() == (newer, other)


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"setup": {}}]', '[{"setup": 5, "day": 1, "problems": []}]'])
def test_a_damaged_file_is_none(text: str, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert read_records() == ()
    write_record(RECORD)
    assert read_records() == (RECORD,)


def test_a_record_says_what_was_seen_to_work_and_what_failed() -> None:
    """Not all is needed."""
    assert RECORD.passed_line().startswith(f"{OPENED}; ")
    assert STOPPED not in RECORD.passed_line()
    assert RECORD.failure_line(NEEDED) == ""
    assert not RECORD.needs_tests(NEEDED)


@pytest.mark.parametrize(
    "setup", [replace(SETUP, driver="581"), replace(SETUP, mps=True), replace(SETUP, card="H100")], ids=str
)
def test_another_driver_card_or_service_has_to_be_tried_itself(setup: Setup) -> None:
    write_record(RECORD)
    assert Record.find(SETUP) == RECORD
    assert Record.find(setup).needs_tests(NEEDED)


@pytest.mark.parametrize("probe", NEEDED)
def test_what_has_failed_is_said_and_what_was_not_come_to_is_lacking(probe: str) -> None:
    failed = replace(RECORD, problems={**RECORD.problems, probe: "cuMemMap: refused"})
    assert failed.failure_line(NEEDED) == f"not seen that {probe}: cuMemMap: refused"
    missing = {p: "" for p in PROBES if p != probe}
    assert replace(RECORD, problems=missing).needs_tests(NEEDED)
    assert not replace(failed, problems={probe: "cuMemMap: refused"}).needs_tests(NEEDED), "the rest would not help"


def test_other_bits_are_a_failure_that_only_a_check_can_see() -> None:
    assert "other bits" in replace(RECORD, problems={**RECORD.problems, TRAINED: "other bits"}).failure_line(NEEDED)
    assert not replace(RECORD, problems=dict.fromkeys(NEEDED, "")).needs_tests(NEEDED)
