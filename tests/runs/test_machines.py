"""Runs on several machines, each a supervisor of its own here: the weights are those of one machine (I2), whatever
dies (I9)."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_SIGNALLED, EXIT_USAGE
from pool.telemetry.status import read_status, state_of
from tests.runs.test_clicks_runs import CLICKS
from tests.runs.test_drawn_numbers import DRAWING
from tests.support.machines import machines_of
from tests.support.runs import STOCKFISH, TOY, Ended, WholeRun, run, run_well, steps_done
from tests.support.wait import wait_for

SMALL: dict[str, Any] = {**TOY, "train.steps": 8, "train.batches_per_step": 4, "pool.bucket_mb": 0.02}
TASKS: dict[str, tuple[int, dict[str, Any]]] = {
    "stockfish": (2, {**STOCKFISH, "train.batches_per_step": 4}),
    "clicks, SparseAdam": (2, {**CLICKS, "optimizer.name": "pool.optim.SparseAdam"}),
    "drawn numbers": (2, DRAWING),
    "torch's, clipped, of seven": (
        3,
        {**SMALL, "optimizer.name": "torch.optim.Adam", "train.clip_norm": 0.5, "train.batches_per_step": 7},
    ),
    "buffers, groups of two, of eight": (
        4,
        {
            **SMALL,
            "model.batch_norm": True,
            "model.dropout": 0.2,
            "train.batches_per_step": 8,
            "train.batches_per_group": 2,
            "pool.gradient_slots": 1,
        },
    ),
    "more machines than groups": (3, {**SMALL, "model.batch_norm": True, "train.batches_per_step": 2}),
    "members, rounded, averaged, validated": (
        2,
        {
            **SMALL,
            "ensemble.members": 2,
            "train.gradient_dtype": "bfloat16",
            "train.average.kind": "ema",
            "train.average.every": 2,
            "train.validate_every": 2,
            "train.checkpoint_every": 3,
        },
    ),
    "a batch that is not finite": (
        2,
        {**SMALL, "train.on_bad_batch": "skip", "loss.infinite_gradient_of_batch": 14, "train.batches_per_group": 2},
    ),
    "a batch to die of": (2, {**SMALL, "train.on_bad_batch": "skip", "model.deadly_batch": 12}),
}


def run_on(machines: int, dir: Path, settings: dict[str, Any], *arguments: str) -> list[Ended]:
    """Returns what each machine has left."""
    first = run_well(dir, settings, "--machines", str(machines), "--local", *arguments, name="machines")
    others = [dir.with_name(f"{dir.name}-machine-{machine}") for machine in range(1, machines)]
    return [first, *(Ended(other, 0, "", "") for other in others)]


@pytest.mark.parametrize(("machines", "settings"), TASKS.values(), ids=TASKS)
def test_several_machines_end_with_the_bits_of_one(
    machines: int, settings: dict[str, Any], whole_run: WholeRun, tmp_path: Path
) -> None:
    one = whole_run(settings)
    for ended in run_on(machines, tmp_path / "run", settings):
        assert ended.digest() == one.digest()


LONG: dict[str, Any] = {**SMALL, "model.batch_norm": True, "pool.snapshot_steps": 2, "train.checkpoint_every": 3}
POINTS = [
    "coordinator.before_announce@2",
    "coordinator.after_announce@3",
    "coordinator.before_send@5",
    "coordinator.after_send@6",
    "coordinator.sums_heard@4",
    "coordinator.report_heard@2",
    "coordinator.after_publish@5",
    "coordinator.before_finished@1",
    "worker.after_finish@5",
    "feeder.before_report@4",
]


WHO_DIES = [(point, number % 2) for number, point in enumerate(POINTS)] + [(point, "both") for point in POINTS[::2]]


@pytest.mark.parametrize(("point", "machine"), WHO_DIES)
def test_whoever_dies_on_whatever_machine(point: str, machine: int | str, whole_run: WholeRun, tmp_path: Path) -> None:
    one = whole_run(LONG)
    dies = {"testing.crash_points": [f"{point}=kill"]}
    of_each = [dies if machine in (m, "both") else {} for m in range(2)]
    with machines_of(tmp_path / "run", LONG, *of_each) as machines:
        ended = [each.end() for each in machines]
    assert [each.digest() for each in ended] == [one.digest()] * 2
    assert "was killed by SIGKILL" in "".join(each.out for each in ended)


@pytest.mark.parametrize("machine", [0, 1])
def test_a_machine_that_is_lost_and_comes_back(machine: int, whole_run: WholeRun, tmp_path: Path) -> None:
    """Its supervisor is killed, and with it all its processes; what started it starts it again."""
    settings = {**LONG, "train.steps": 400, "train.checkpoint_every": 40}
    one = whole_run(settings)
    with machines_of(tmp_path / "run", settings, {}, {}) as machines:
        lost = machines[machine]
        wait_for(lambda: steps_done(lost.dir) > 60, "some steps", 200)
        lost.process.kill()
        lost.process.wait()
        lost.begin("--resume")
        ended = [each.end() for each in machines]
    assert [each.digest() for each in ended] == [one.digest()] * 2
    assert f"machine {machine} has begun anew" in ended[1 - machine].out


@pytest.mark.parametrize("machine", [0, 1])
def test_a_machine_that_begins_anew_when_all_have_finished(machine: int, whole_run: WholeRun, tmp_path: Path) -> None:
    """It may have been killed with the last checkpoint on the disk, and the others gone since all had that."""
    one = whole_run(LONG)
    with machines_of(tmp_path / "run", LONG, {}, {}) as machines:
        for each in machines:
            each.end()
        machines[machine].begin("--resume")
        ended = machines[machine].end()
    assert ended.digest() == one.digest()
    assert "the last, is in a checkpoint here, and no other machine is heard" in ended.out


def test_a_machine_that_does_not_come_back_is_not_waited_for_for_ever(whole_run: WholeRun, tmp_path: Path) -> None:
    """The others save what there is; any number of machines goes on with that."""
    settings = {**LONG, "train.steps": 60, "pool.machine_timeout": 1.0}
    one = whole_run({**LONG, "train.steps": 60})
    with machines_of(tmp_path / "run", settings, {}, {}, {}) as machines:
        wait_for(lambda: steps_done(machines[0].dir) > 10, "some steps", 200)
        machines[2].process.kill()
        codes = [machine.process.wait(200) for machine in machines[:2]]
    assert codes == [EXIT_CRASH_LOOP] * 2
    assert "machine 2 is not heard for 1 s: saving what there is" in machines[0].out
    run_well(tmp_path / "run-machine-1", settings, "--resume", "--set", "train.steps=45")
    shutil.copytree(tmp_path / "run-machine-1", tmp_path / "more", symlinks=True)
    ended = run_on(2, tmp_path / "more", settings, "--resume")  # the second gets a copy
    assert [each.digest() for each in ended] == [one.digest()] * 2


def test_machines_without_a_checkpoint_get_that_of_the_others(whole_run: WholeRun, tmp_path: Path) -> None:
    """The first one too, and the others from there."""
    settings = {**LONG, "train.steps": 30}
    one = whole_run(settings)
    run_on(3, tmp_path / "run", {**settings, "train.steps": 15})
    for lost in ("run", "run-machine-2"):
        shutil.rmtree(tmp_path / lost)
    ended = run_on(3, tmp_path / "run", settings, "--resume")
    assert [each.digest() for each in ended] == [one.digest()] * 3
    assert "copying the checkpoint of step 15 from machine 1" in ended[0].out


def test_on_one_machine_to_try_one_that_fails_ends_all(tmp_path: Path) -> None:
    """Elsewhere the others wait for it."""
    (tmp_path / "run-machine-1").write_text("no folder")
    ended = run(tmp_path / "run", LONG, "--machines", "2", "--local", name="machines")
    assert ended.code == EXIT_SIGNALLED + signal.SIGTERM
    assert f"machine 1: pool: run.dir: {tmp_path}/run-machine-1" in ended.err


def test_one_that_is_told_to_stop_stops_all_with_the_same_step(whole_run: WholeRun, tmp_path: Path) -> None:
    settings = {**LONG, "train.steps": 300}
    one = whole_run(settings)
    with machines_of(tmp_path / "run", settings, {}, {}) as machines:
        wait_for(lambda: steps_done(machines[0].dir) > 10, "some steps", 200)
        machines[1].process.terminate()
        codes = [machine.process.wait(200) for machine in machines]
        assert codes == [EXIT_CRASH_LOOP, EXIT_SIGNALLED + signal.SIGTERM]
        saved = [(machine.dir / "checkpoints/last").readlink() for machine in machines]
        assert saved[0] == saved[1]
        for machine in machines:
            assert state_of(read_status(machine.dir), all_steps=False) == "stopped"
            machine.begin("--resume")
        ended = [each.end() for each in machines]
    assert [each.digest() for each in ended] == [one.digest()] * 2


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "a setting": ({"data.batch_size": 32}, "data.batch_size: 32 on machine 1, 64 on machine 0"),
    "the exchange": ({"pool.exchange": "device"}, "pool.exchange: device; for several machines set it to host"),
}


@pytest.mark.parametrize(("own", "why"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_machine_that_is_not_like_the_first_is_told_why_and_the_others_go_on_waiting(
    own: dict[str, Any], why: str, whole_run: WholeRun, tmp_path: Path
) -> None:
    settings = {**LONG, "train.steps": 5}
    one = whole_run(settings)
    with machines_of(tmp_path / "run", settings, {}, own) as machines:
        assert machines[1].process.wait(200) == EXIT_USAGE
        assert why in machines[1].out
        assert "Traceback" not in machines[1].out
        assert machines[0].process.poll() is None
        machines[1].begin(*(word for key in own for word in ("--set", f"{key}={settings.get(key, 'auto')}")))
        assert [each.end().digest() for each in machines] == [one.digest()] * 2


def test_a_machine_that_waits_for_a_slower_one_says_so(tmp_path: Path) -> None:
    """With a worker each: a second one that has no batch of a step would wait for one, which counts as the loader's."""
    settings = {**SMALL, "train.steps": 12, "pool.devices": ["fake:0"]}
    slow = {"pool.devices": ["fake:0?compute_ms=400"]}  # more than anything else may take on a busy machine
    with machines_of(tmp_path / "run", settings, {}, slow) as machines:
        shares = [machine.end().metrics()[-1] for machine in machines]
    assert shares[0]["machines"] > shares[1]["machines"]
    assert shares[0]["machines"] == max(shares[0][part] for part in ("loader", "reduce", "optimizer", "machines"))


def test_a_machine_with_other_data_under_the_same_name_is_told_so(tmp_path: Path) -> None:
    data = Path(STOCKFISH["data.train"][0]).resolve()
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / data.name).write_bytes(content)
    with machines_of(tmp_path / "run", STOCKFISH, {}, {"data.train": [str(tmp_path / data.name)]}) as machines:
        assert machines[1].process.wait(200) == EXIT_USAGE
        assert f"data.train: {data.name} of {len(content)} bytes, content " in machines[1].out


def test_an_ensemble_that_is_divided_is_the_whole_one(whole_run: WholeRun, tmp_path: Path) -> None:
    """As the how-to page does it: machines that do not know each other."""
    settings = {**SMALL, "train.steps": 4, "run.seed": 3}
    whole = whole_run({**settings, "ensemble.members": 4}).weights()
    for half in range(2):
        own = {"ensemble.members": 2, "run.model_seed": 3 + 2 * half}
        weights = run_well(tmp_path / f"half-{half}", {**settings, **own}).weights()
        for name, array in weights.items():
            _, member, rest = name.split(".", 2)
            assert array.tobytes() == whole[f"member.{int(member) + 2 * half}.{rest}"].tobytes()


def test_machines_whose_weights_differ_end_with_a_line(tmp_path: Path) -> None:
    settings = {**LONG, "task": "tests.support.tasks.drifting_task", "train.steps": 40}
    with machines_of(tmp_path / "run", settings, {}, {}) as machines:
        machines[1].process.kill()
        machines[1].process.wait()
        machines[1].begin("--resume", DRIFTS="1")
        codes = [machine.process.wait(200) for machine in machines]
    assert 0 not in codes
    said = machines[0].out + machines[1].out
    assert "machine 0 and machine 1 have different weights in step" in said
    assert "Traceback" not in said
