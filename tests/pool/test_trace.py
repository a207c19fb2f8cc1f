"""What `pool train --trace` writes."""

from __future__ import annotations

import json
from pathlib import Path

from pool.protocol.identity import WORKER, Peer
from pool.telemetry.trace import Trace, merge
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
    assert merge(tmp_path, tmp_path / "out.json") == 6
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    by_phase = {event["ph"]: event for event in events}
    assert by_phase["X"]["name"] == "outer"
    assert by_phase["X"]["args"] == {"step": 3}
    assert by_phase["X"]["ts"] <= by_phase["i"]["ts"] <= by_phase["X"]["ts"] + by_phase["X"]["dur"]
    assert by_phase["b"]["id"] == by_phase["e"]["id"] == 7
    assert {event["pid"] for event in events} == {by_phase["M"]["pid"]}


def test_a_run_leaves_a_trace_with_a_row_for_each_process_and_the_same_bits(tmp_path: Path) -> None:
    settings = {**TOY, "pool.first_bucket_mb": 1e-6}  # the last bucket of a batch is not announced by itself
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
