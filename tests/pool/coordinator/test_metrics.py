"""What a run records: after a resume as if it had never stopped."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.directory_watcher import DirectoryWatcher
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as ServedEvents
from tensorboard.compat.proto.event_pb2 import SessionLog

from loader.stream.interface import Cursor
from pool.checkpoint.validations import Validation
from pool.coordinator.metrics import tensorboard
from pool.coordinator.metrics.metrics import Metrics, Traffic
from pool.coordinator.metrics.sinks import Sinks
from pool.coordinator.metrics.tensorboard import TENSORBOARD
from pool.coordinator.scheduler.actions import Commit
from pool.protocol.codec import Envelope, decode, encode
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer
from pool.protocol.messages import MetricValue
from pool.run_folder.lines import MAX_PENDING_NBYTES, LineFile
from pool.run_folder.records import METRICS
from pool.telemetry.event_file import EventFile
from tests.support.runs import TOY, run


def records(dir: Path) -> list[tuple[int, str]]:
    lines = (dir / METRICS).read_text().splitlines()
    return [(r["step"], "validation" if "validation_loss" in r else "step") for r in map(json.loads, lines)]


def write(dir: Path, begin: int, end: int) -> Metrics:
    metrics = Metrics(dir, begin, 10, 64, notify=str, sinks=["tensorboard"])
    for step in range(begin, end):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(2_000_000 * (step + 1)))
        if step % 2:
            metrics.add_validation(step + 1, (0.5,))
    metrics.close()
    return metrics


def test_a_resumed_run_forgets_what_it_does_again_and_knows_what_is_validated(tmp_path: Path) -> None:
    write(tmp_path, 0, 7)
    assert write(tmp_path, 4, 4).validated_version == 4
    assert records(tmp_path) == [
        (1, "step"),
        (2, "step"),
        (2, "validation"),
        (3, "step"),
        (4, "step"),
        (4, "validation"),
    ]


def test_a_full_disk_is_said_once_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def said_of(name: str) -> list[str]:
        return [line for line in said if f"{tmp_path / name} " in line]

    metrics = Metrics(tmp_path, 0, 10, 64, said.append, sinks=["tensorboard"])
    write, left = os.write, 30

    def full(fd: int, data: bytes) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(fd, data[:left])
        left -= written
        return written

    monkeypatch.setattr(os, "write", full)
    for step in range(3):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    assert said_of(METRICS) == [f"{tmp_path / METRICS} can't be written: No space left on device; training goes on"]
    assert len(said_of(TENSORBOARD)) == 1
    assert (tmp_path / METRICS).read_bytes() == b"", "no line is torn"
    assert (metrics.unwritten, metrics.waits_for_disk) == (3, False)
    assert not metrics.finish(), "the end of the run waits"
    assert metrics.waits_for_disk
    assert "3 lines of" in said[-1]
    assert "make room" in said[-1]
    monkeypatch.setattr(os, "write", write)
    metrics.add_step(Commit(3, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert said_of(METRICS)[-1] == f"{tmp_path / METRICS} is written again"
    assert [step for step, _ in records(tmp_path)] == [1, 2, 3, 4]


def test_what_a_full_disk_can_not_hold_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile(tmp_path / "lines")
    write = os.write
    monkeypatch.setattr(os, "write", lambda *_: fail())
    for _ in range(MAX_PENDING_NBYTES // 1_000_000 + 5):
        file.add("x" * 1_000_000)
    assert file.error is not None
    monkeypatch.setattr(os, "write", write)
    file.add("y")
    file.close()
    assert MAX_PENDING_NBYTES <= (tmp_path / "lines").stat().st_size < MAX_PENDING_NBYTES + 2_000_000


def test_a_half_line_on_a_full_disk_is_ended_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"step": 1}\n{"st')
    file = LineFile(path)
    write = os.write
    monkeypatch.setattr(os, "write", lambda *_: fail())
    file.add("a")
    for _ in range(4):
        file.write_pending()
    assert file.num_pending == 1
    monkeypatch.setattr(os, "write", write)
    file.write_pending()
    file.close()
    assert (file.num_pending, path.read_bytes()) == (0, b'{"step": 1}\n{"st\na\n')


def fail() -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_line_that_a_dead_coordinator_left_half_written_costs_no_other_line(tmp_path: Path) -> None:
    """Its successor does that step again, whatever the snapshot is that it goes on from."""
    write(tmp_path, 0, 6)
    path = tmp_path / METRICS
    path.write_bytes(path.read_bytes()[:-20])
    write(tmp_path, 5, 8)
    write(tmp_path, 6, 6)
    assert [step for step, kind in records(tmp_path) if kind == "step"] == [1, 2, 3, 4, 5, 6]


FOREIGN = {
    "an object": b"{}\n",
    "a number": b"5\n",
    "no UTF-8": b"\xff\xfe\n",
    "a step that is none": b'{"step": "7"}\n{"step": true}\n{"step": null}\n',
    "two in one": b'{"step": 4, "ti{"step": 5, "time": 1.0, "loss": 0.5}\n',
    "no line end": b"half of someth",
    "deep": b"[" * 200_000 + b"\n",
    "a large number": b"9" * 10_000 + b"\n",
    "zeros": bytes(3 << 20),
    "many": b"{}\n" * 700_000,
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_lines_are_left_alone_and_cost_no_record(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, 0, 4)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(content)
    metrics = write(tmp_path, 4, 8)
    write(tmp_path, 6, 8)
    lines = (tmp_path / METRICS).read_bytes().split(b"\n")
    assert content.split(b"\n")[0] in lines
    steps = [json.loads(line)["step"] for line in lines if b"learning_rate" in line]
    assert metrics.validated_version in (4, -1)
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("name", [METRICS, TENSORBOARD])
@pytest.mark.parametrize("plant", [Path.mkdir, fifo, link], ids=["folder", "pipe", "link"])
def test_what_is_in_the_way_of_records_is_said_and_training_goes_on(
    plant: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    plant(tmp_path / name)
    if name == TENSORBOARD and (tmp_path / name).is_dir():
        (tmp_path / name).chmod(0o777)
    said: list[str] = []
    metrics = Metrics(tmp_path, 2, 10, 64, said.append, sinks=["tensorboard"])
    for step in range(2, 5):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path / name} can't be written: ")
    assert not (tmp_path / "elsewhere").exists()


def test_no_more_of_the_records_is_read_than_has_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"step": step, "time": 0.0, "loss": 0.5}) for step in range(1, 100_001)]
    (tmp_path / METRICS).write_text("\n".join(lines) + "\n")
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, count: int, at: int) -> bytes:
        read.append(count)
        return pread(fd, count, at)

    monkeypatch.setattr(os, "pread", counted)
    write(tmp_path, 99_900, 99_900)
    assert sum(read) < 100_000
    assert [step for step, _ in records(tmp_path)] == list(range(1, 99_901))


def test_what_is_deleted_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "EVENT_SECONDS", 0.0)
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append, sinks=["tensorboard"])
    metrics.add_step(Commit(0, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    shutil.rmtree(tmp_path / TENSORBOARD)
    (tmp_path / METRICS).unlink()
    for step in (1, 2):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert [step for step, _ in records(tmp_path)] == [2, 3]
    assert [step for step, _ in curves(tmp_path)] == [2, 3]
    assert said == []


def curves(dir: Path) -> list[tuple[int, list[str]]]:
    """Steps and tags of the points that TensorBoard sees."""
    loader = DirectoryWatcher(str(dir / TENSORBOARD), EventFileLoader)
    return [(event.step, [value.tag for value in event.summary.value]) for event in loader.Load() if event.step]


def test_curves_go_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "EVENT_SECONDS", 0.0)
    metrics = Metrics(tmp_path, 0, 10, 64, notify=str, sinks=["tensorboard"])
    for step in range(4):
        monkeypatch.setattr(time, "time", lambda: 2e9 - 1e6 * step)  # noqa: B023
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert [step for step, _ in curves(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "sessions",
    [
        [(0, 7), (4, 9)],  # a step whose validation is on record
        [(0, 7), (3, 9)],
        [(0, 7), (7, 9)],  # nothing comes again
        [(0, 3), (0, 9)],  # before the first snapshot
        [(0, 7), (5, 8), (2, 4), (3, 9)],
    ],
)
@pytest.mark.parametrize("tick", [0.0, 100.0, -100.0])  # of the clock, from session to session
def test_curves_never_run_backwards_whatever_a_session_does_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: list[tuple[int, int]], tick: float
) -> None:
    monkeypatch.setattr(tensorboard, "EVENT_SECONDS", 0.0)
    for number, (begin, end) in enumerate(sessions):
        monkeypatch.setattr(time, "time", lambda: 2e9 + tick * number)  # noqa: B023
        monkeypatch.setattr(os, "getpid", lambda: 1_000 - number)  # noqa: B023
        write(tmp_path, begin, end)
    seen = EventAccumulator(str(tmp_path / TENSORBOARD), size_guidance={"scalars": 0})
    seen.Reload()
    assert [point.step for point in seen.Scalars("loss/train")] == [*range(1, 10)]
    assert [point.step for point in seen.Scalars("loss/validation")] == [2, 4, 6, 8]


@pytest.mark.parametrize("resumed_at", [0, 4])
def test_the_first_file_of_a_run_begins_with_the_start_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed_at: int
) -> None:
    """Without one TensorBoard's server (`--load_fast=false`) shows the void points of a resumed run."""
    monkeypatch.setattr(tensorboard, "EVENT_SECONDS", 0.0)
    write(tmp_path, 0, 7)
    (path,) = (tmp_path / TENSORBOARD).iterdir()
    version, start, *_ = EventFileLoader(str(path)).Load()
    assert version.file_version
    assert start.HasField("session_log")
    assert (start.session_log.status, start.step) == (SessionLog.START, 0)
    write(tmp_path, resumed_at, 9)
    seen = ServedEvents(str(tmp_path / TENSORBOARD), tensor_size_guidance={"scalars": 0})
    seen.Reload()
    assert [point.step for point in seen.Tensors("loss/train")] == [*range(1, 10)]


def test_a_sink_of_the_users_is_told_where_the_run_goes_on(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 4, 10, 64, notify=str, sinks=[f"{__name__}:Resumed"])
    metrics.add_step(Commit(4, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert (tmp_path / "resumed").read_text() == "from 4, 5"


class Resumed:
    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "resumed"

    def resume(self, step: int) -> None:
        self.path.write_text(f"from {step}")

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:  # noqa: ARG002
        self.path.write_text(f"{self.path.read_text()}, {step}")
        return True

    def close(self) -> None: ...


def test_curves_are_in_groups(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, 10, 64, notify=str, sinks=["tensorboard"])
    metrics.add_validation(1, (0.5,), [MetricValue("auc", (0.75,))])
    metrics.add_step(Commit(0, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    tags = [tag for _, tags in curves(tmp_path) for tag in tags]
    assert {"loss/train", "validation/auc"} < set(tags)
    assert {tag.partition("/")[0] for tag in tags} == {"loss", "validation", "schedule", "speed", "time"}


def test_metrics_of_the_task_are_recorded_with_the_validation_and_reported(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, 10, 64, notify=str, sinks=[])
    auc = MetricValue("auc", (0.75,))
    metrics.add_validation(4, (0.5,), [auc])
    best = Validation(4, 0.5, {"auc": 0.75})
    report = metrics.report(4, -1, 0, 0.1, best, "auc")
    metrics.close()
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line).items() >= {"step": 4, "validation_loss": 0.5, "validation_auc": 0.75}.items()
    assert report.validation_metrics == (auc,)
    assert (report.best_step, report.best_metric, report.best_value) == (4, "auc", 0.75)


def test_records_are_strict_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, 10, 64, notify=str, sinks=[])
    metrics.add_step(Commit(0, ((math.inf,),), Cursor()), (math.nan,), Traffic(0))
    metrics.add_validation(1, (-math.inf,), [MetricValue("auc", (math.nan,))])
    metrics.close()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    step, validation = (json.loads(line, parse_constant=refuse) for line in lines)
    assert (step["loss"], step["learning_rate"]) == (None, None)
    assert (validation["validation_loss"], validation["validation_auc"]) == (None, None)


def test_numbers_of_members_are_lists_in_the_records_and_curves_beside_that_of_all(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, 10, 64, notify=str, sinks=["tensorboard"])
    metrics.add_step(Commit(0, ((1.0, 2.0), (), (4.0,)), Cursor()), (0.1, 0.2, 0.3), Traffic(0))
    metrics.add_validation(1, (0.5, 0.7, 0.2), [MetricValue("auc", (0.75, 0.5, 1.0))])
    report = metrics.report(1, -1, 0, 0.2)
    metrics.close()
    step, validation = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert (step["loss"], step["learning_rate"]) == (2.75, 0.2)
    assert str(step["members"]) == "{'loss': [1.5, None, 4.0], 'learning_rate': [0.1, 0.2, 0.3]}"
    assert (validation["validation_loss"], validation["validation_auc"]) == (0.5, 0.75)
    assert validation["members"] == {"validation_loss": [0.5, 0.7, 0.2], "validation_auc": [0.75, 0.5, 1.0]}
    assert (report.loss, report.validation_loss) == (2.75, 0.5)
    (path,) = (tmp_path / "tensorboard").iterdir()
    tags = {value.tag for event in EventFileLoader(str(path)).Load() for value in event.summary.value}
    assert {"loss/train", "loss/train/member 2", "loss/validation/member 0", "validation/auc/member 1"} <= tags


def test_a_point_that_does_not_fit_on_the_disk_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = EventFile(tmp_path)
    file.add(1, {"a": 1.0})
    write = os.write

    def full(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", lambda *_: fail())
        return write(fd, data[:7])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="Input/output error"):
        file.add(2, {"a": 1.0})
    monkeypatch.setattr(os, "write", write)
    file.add(3, {"a": 1.0})
    file.close()
    (path,) = tmp_path.iterdir()
    assert [event.step for event in EventFileLoader(str(path)).Load()] == [0, 1, 3]


def test_no_tensorboard_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / TENSORBOARD).write_text("in the way")
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append, sinks=["tensorboard"])
    for step in range(3):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic(0))
    metrics.close()
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path / TENSORBOARD} can't be written: ")
    assert [step for step, _ in records(tmp_path)] == [1, 2, 3]


def test_a_run_that_begins_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path, 0, 2)
    assert write(tmp_path, 0, 0).validated_version == -1
    assert records(tmp_path) == []


def test_what_is_reported_before_a_worker_has_spoken_is_taken_by_the_supervisor(tmp_path: Path) -> None:
    """The report is also the coordinator's heartbeat, and a successor may have to wait for a worker that hangs."""
    report = write(tmp_path, 0, 0).report(0, -1, 0, 0.1)
    envelope = Envelope(Peer(COORDINATOR), Peer(SUPERVISOR), 1, report)
    assert str(decode(encode(envelope))) == str(envelope)  # NaN is not equal to itself


def test_gradients_are_counted_step_by_step(tmp_path: Path) -> None:
    write(tmp_path, 0, 3)
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [line["gradient_mb"] for line in lines if "loss" in line] == [2.0, 2.0, 2.0]


class Fragile:
    """A sink that fails at some steps, with whatever."""

    def __init__(self, name: str, fails_at: set[int]) -> None:
        self.path = Path(name)
        self._fails_at = fails_at
        self.steps: list[int] = []

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        if step in self._fails_at:
            raise KeyError(next(iter(scalars)))
        self.steps.append(step)
        return True

    def close(self) -> None:
        raise RuntimeError("no more")


def test_no_sink_can_stop_a_run_or_another_sink() -> None:
    said: list[str] = []
    bad, good = Fragile("bad", {1, 2}), Fragile("good", set())
    sinks = Sinks((bad, good), said.append)
    for step in range(4):
        sinks.add(step, {"loss": 0.5})
    assert (bad.steps, good.steps) == ([0, 3], [0, 1, 2, 3])
    assert len(said) == 2
    assert said[0].startswith("bad can't be written: KeyError: 'loss'")
    assert said[1] == "bad is written again"
    sinks.close()
    assert [line.split(" ")[0] for line in said[2:]] == ["bad", "good"]


@pytest.mark.parametrize("path", [["a", "list"], {}, None])
def test_a_sink_whose_path_is_no_path_can_not_stop_a_run(path: Any) -> None:
    said: list[str] = []
    odd = Fragile("odd", {1})
    odd.path = path
    sinks = Sinks((odd,), said.append)
    for step in range(3):
        sinks.add(step, {"loss": 0.5})
    assert odd.steps == [0, 2]
    assert said[0].startswith(f"{path} can't be written: KeyError: 'loss'")
    assert said[1] == f"{path} is written again"


SINK = """
class Steps:
    def __init__(self, run_dir):
        self.path = run_dir / "steps.txt"

    def add(self, step, scalars):
        if FAILS:
            raise RuntimeError("no server")
        with open(self.path, "a") as file:
            file.write(f"{step} {sorted(scalars)[0]}\\n")
        return True

    def close(self):
        pass


class Nothing:
    def __init__(self, run_dir):
        pass


def broken(run_dir):
    raise OSError("no route to host")
"""


@pytest.mark.runs
@pytest.mark.parametrize("fails", [False, True])
def test_a_sink_from_outside_takes_the_numbers_and_can_not_stop_a_run(fails: bool, tmp_path: Path) -> None:
    (tmp_path / "my_sink.py").write_text(f"FAILS = {fails}\n{SINK}", encoding="utf-8")
    sinks = ["my_sink:Steps", "my_sink:Nothing", "my_sink:broken"]
    ended = run(tmp_path / "run", {**TOY, "train.steps": 3, "run.sinks": sinks}, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert not (ended.dir / "tensorboard").exists()
    assert "run.sinks: my_sink:Nothing: Nothing.path is missing: a metrics sink must have it" in ended.out
    assert "run.sinks: my_sink:broken: OSError: no route to host (" in ended.out
    if fails:
        assert ended.out.count("steps.txt can't be written: RuntimeError: no server (") == 1
    else:
        assert (ended.dir / "steps.txt").read_text().splitlines() == [f"{step} batches_ready" for step in (1, 2, 3)]
    assert len(ended.metrics()) == 3


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("graphite", "run.sinks: no metrics sink 'graphite'; allowed: tensorboard, trackio, wandb, or module:factory"),
        ("os:getcwd", "run.sinks: os:getcwd can't be called with (run_dir): "),
        ("os:sep", "run.sinks: os:sep must be a function of (run_dir), not '/'"),
    ],
)
def test_a_name_that_is_no_sink_is_refused_before_the_run(name: str, complaint: str, tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**TOY, "run.sinks": [name]})
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert complaint in ended.err
