"""What was seen of shared memory counts for the same card and driver, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pool.device.proof import NEEDED, OPENED, OUTLIVES, PROBES, STOPPED, Record, Setup, judged, note, records

SETUP = Setup("A100", "580.1", mps=False)
RECORD = Record(SETUP, "2026-11-23", {**dict.fromkeys(PROBES, ""), STOPPED: "memory changed for 25 ms more"})


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sparsepool/shared-memory.json"


def test_what_is_noted_is_read_and_takes_the_place_of_what_was_seen_with_the_same_setup(cache: Path) -> None:
    other = replace(RECORD, setup=replace(SETUP, card="H100"))
    assert note(RECORD) == note(other) == cache
    newer = replace(RECORD, day="2026-12-01")
    note(newer)
    assert records() == (newer, other)


def test_without_a_known_driver_nothing_is_noted(cache: Path) -> None:
    assert note(replace(RECORD, setup=replace(SETUP, driver=""))) is None
    assert not cache.exists()


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"setup": {}}]', '[{"setup": 5, "day": 1, "problems": []}]'])
def test_a_damaged_file_is_none(text: str, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert records() == ()
    assert note(RECORD) == cache
    assert records() == (RECORD,)


def test_a_proof_says_from_when_it_is_and_what_was_seen() -> None:
    """Not all is needed."""
    verdict = judged(SETUP, [RECORD])
    assert verdict.proven
    assert verdict.why.startswith(f"make gpu-check on 2026-11-23, A100, driver 580.1: {OPENED}; ")
    assert OUTLIVES in verdict.why
    assert STOPPED not in verdict.why


@pytest.mark.parametrize(
    "setup", [replace(SETUP, driver="581"), replace(SETUP, mps=True), replace(SETUP, card="H100")], ids=str
)
def test_another_driver_card_or_service_has_to_be_tried_itself(setup: Setup) -> None:
    verdict = judged(setup, [RECORD])
    assert not verdict.proven
    assert verdict.why.startswith(f"nobody has seen processes share memory of {setup}: make gpu-check tries it")
    assert verdict.why.endswith("; it worked with A100, driver 580.1") == (setup.card == SETUP.card)


@pytest.mark.parametrize("probe", NEEDED)
def test_what_has_failed_or_was_not_come_to_is_said(probe: str) -> None:
    failed = judged(SETUP, [replace(RECORD, problems={**RECORD.problems, probe: "cuMemMap: refused"})])
    missing = judged(SETUP, [replace(RECORD, problems={p: "" for p in PROBES if p != probe})])
    assert (failed.proven, missing.proven) == (False, False)
    assert failed.why.endswith(f"not seen that {probe}: cuMemMap: refused")
    assert missing.why.endswith(f"not seen that {probe}: not tried")
