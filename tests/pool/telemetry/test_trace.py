"""What `pool train --trace` writes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from pool.protocol.identity import WORKER, Peer
from pool.telemetry.trace import FOLDER, Merged, Trace, clear, finish, merge
from tests.support.runs import TOY, run_well


def test_off_it_writes_nothing(tmp_path: Path) -> None:
    trace = Trace(tmp_path, Peer(WORKER, 1), on=False)
    with trace.span("forward"):
        trace.mark("here")
    assert not list(tmp_path.iterdir())


def test_spans_of_a_process_become_one_trace(tmp_path: Path) -> None:
    trace = Trace(tmp_path, Peer(WORKER, 1), on=True)
    with trace.span("outer", step=3):
        trace.mark("here", bucket=1)
    trace.begin("slot", 7)
    trace.end("slot", 7)
    assert merge(tmp_path, tmp_path / "out.json") == Merged(6, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    by_phase = {event["ph"]: event for event in events}
    assert by_phase["X"]["name"] == "outer"
    assert by_phase["X"]["args"] == {"step": 3}
    assert by_phase["X"]["ts"] <= by_phase["i"]["ts"] <= by_phase["X"]["ts"] + by_phase["X"]["dur"]
    assert by_phase["b"]["id"] == by_phase["e"]["id"] == 7
    assert {event["pid"] for event in events} == {by_phase["M"]["pid"]}


def test_a_full_disk_costs_the_events_that_do_not_fit_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(tmp_path, Peer(WORKER, 1), on=True)
    write, room = os.write, 50

    def full(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(fd, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        trace.mark("lost")
    monkeypatch.setattr(os, "write", write)
    trace.mark("kept")
    trace.mark("kept")
    assert merge(tmp_path, tmp_path / "out.json") == Merged(4, 1)
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [event["name"] for event in events][2:] == ["kept", "kept"]


@pytest.mark.parametrize("part", [b'{"ph": "X", "na', b"\xff\n", b"5\n", b"[" * 200_000, b'{"ts": "late"}\n', b"\n\n"])
def test_a_part_that_is_no_trace_is_left_out(part: bytes, tmp_path: Path) -> None:
    trace = Trace(tmp_path, Peer(WORKER, 1), on=True)
    trace.mark("here")
    (tmp_path / FOLDER / "worker-0-1.jsonl").write_bytes(part)
    assert merge(tmp_path, tmp_path / "out.json") == Merged(3, len(part.splitlines()))
    assert not (tmp_path / FOLDER).exists()


def test_a_trace_that_does_not_fit_on_the_disk_leaves_its_parts_and_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Trace(tmp_path, Peer(WORKER, 1), on=True).mark("here")
    monkeypatch.setattr(os, "write", lambda *_: fail())
    with pytest.raises(OSError, match="No space left"):
        merge(tmp_path, tmp_path / "out.json")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER]
    clear(tmp_path)
    assert not list(tmp_path.iterdir())


def fail() -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", [FOLDER, f"{FOLDER}/worker-1-1.jsonl"])
def test_what_is_in_the_way_of_a_trace_ends_no_process(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(mode=0o700, exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    trace = Trace(tmp_path, Peer(WORKER, 1), on=True)
    with trace.span("forward"):
        trace.mark("here")
    assert not (tmp_path / "elsewhere").exists()


def test_a_trace_goes_where_a_link_points_and_takes_the_place_of_one_that_points_nowhere(tmp_path: Path) -> None:
    for name, target in (("link", "elsewhere.json"), ("loop", "loop")):
        (tmp_path / name).symlink_to(target)
        Trace(tmp_path, Peer(WORKER, 1), on=True).mark("here")
        assert ": 3 events; open it" in finish(tmp_path, tmp_path / name)
        assert len(json.loads((tmp_path / name).read_text())["traceEvents"]) == 3
    assert (tmp_path / "link").is_symlink()


@pytest.mark.runs
def test_a_run_leaves_a_trace_with_a_row_for_each_process_and_the_same_bits(tmp_path: Path) -> None:
    # the last bucket of a batch is not announced by itself; torch's optimizers take the whole sum
    settings = {**TOY, "pool.first_bucket_mb": 1e-6, "optimizer.name": "torch.optim.Adam"}
    plain = run_well(tmp_path / "plain", settings)
    traced = run_well(tmp_path / "traced", settings, "--trace", str(tmp_path / "out.json"))
    assert traced.digest() == plain.digest()
    assert "out.json: " in traced.out
    assert not (traced.dir / "trace").exists()
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    rows = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(rows.values()) == ["coordinator", "feeder", "worker 0", "worker 1"]
    names = {event["name"] for event in events}
    assert {"forward", "backward", "bucket complete", "reduce", "optimize", "commit"} <= names
    heard = [event["name"] for event in events]
    assert heard.count("bell heard") >= 6  # the short way is taken; half a second would pass instead
    assert heard.count("weights complete") >= 3  # before the orders said so
    assert {"waiting for weights", "waiting for batches"} & names  # which of them is a matter of time
    forward = [event for event in events if event["name"] == "forward"]
    assert sorted(event["args"]["batch"] for event in forward) == list(range(24))
    steps = [event["args"]["step"] for event in events if event["name"] == "commit"]
    assert steps == list(range(12))
