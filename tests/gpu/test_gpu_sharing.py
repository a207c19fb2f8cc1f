"""An exchange on a card, and the memory that processes share for it: `make gpu-check`. What was seen is noted in the
user's cache folder, beside what the planner tries by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import probes
from pool.device.proof import COPIED, NEEDED, NEEDED_BY_SEVERAL, TRAINED, Record, write_record
from tests.gpu.conftest import Gpus
from tests.support.runs import TOY, check, run, run_well

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def test_memory_is_shared_and_an_exchange_in_it_has_the_bits_of_the_hosts(gpus: Gpus, tmp_path: Path) -> None:
    """Once for each kind of card and driver; a failure is noted as well. What cards copy to one another is tried with
    each pair."""
    tried = set()
    copied = {COPIED: probes.copied(gpus.kind, gpus.module)} if gpus.count > 1 else {}
    assert not gpus.module or copied == {COPIED: ""}
    needed = {*(NEEDED_BY_SEVERAL if copied else NEEDED), TRAINED}
    for index in range(gpus.count):
        device = f"{gpus.kind}:{index}"
        setup = probes.setup_of(device, gpus.module)
        if setup in tried:
            continue
        tried.add(setup)
        found = probes.problems(device, gpus.module) | copied
        found[TRAINED] = trained(gpus, index, tmp_path / str(index))
        write_record(Record(setup, datetime.now(UTC).date().isoformat(), found))
        assert {probe: found.get(probe) for probe in needed} == dict.fromkeys(needed, "")


def trained(gpus: Gpus, index: int, folder: Path) -> str:
    """What has gone wrong; empty if nothing has. Two workers, of which one is killed, on the coordinator's card."""
    folder.mkdir()
    settings = {**TOY, **gpus.on(index, index)}
    killed = {"testing.crash_points": ["worker.batch_computed@3=kill"]}
    on_host = run_well(folder / "host", {**settings, "pool.exchange": "host"})
    on_card = run(folder / "device", {**settings, **killed, "pool.exchange": "device"})
    if on_card.code:
        return on_card.err.strip().splitlines()[-1]
    return "" if on_card.digest() == on_host.digest() else "other bits"


def test_auto_takes_the_card_if_that_was_seen_to_work(gpus: Gpus, tmp_path: Path) -> None:
    record = Record.find(probes.setup_of(f"{gpus.kind}:0", gpus.module))
    page = check(tmp_path / "page", {**TOY, **gpus.on(0, 0)})
    assert page.code == 0, page.err
    said = " ".join(page.out.split())
    assert (f"weights lie on {gpus.kind}:0" in said) == (not record.failure_line(NEEDED))
    assert record.failure_line(NEEDED) or record.passed_line() in said


@pytest.mark.parametrize("home", ["", "all"])
def test_several_cards_share_one_exchange_with_the_bits_of_one(several: Gpus, home: str, tmp_path: Path) -> None:
    """Workers on other cards send touched rows through page-locked memory of the host, or if the rows are shared out
    straight to the card that adds them up."""
    grown: dict[str, Any] = {**TOY, "train.batches_per_step": several.count}
    on_device = {**several.on(*range(several.count)), "pool.exchange": "device", "pool.coordinator_device": home}
    every = run_well(tmp_path / "all", {**grown, **on_device})
    one = run_well(tmp_path / "one", {**grown, **several.on(0), "pool.exchange": "host"})
    assert every.digest() == one.digest()
