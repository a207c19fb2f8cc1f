"""Numbered nets: what is next, what is recorded, what a command's last line says, what follows from an export's end."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from loader.exit_codes import EXIT_FAILED, EXIT_RESOURCES
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.folder import remove_old_checkpoints, step_path
from pool.checkpoint.state import FOLDER, OptimizerNumbers
from pool.config.load import parse_config
from pool.errors import CheckpointError, ConfigError
from pool.export.command import export_command
from pool.nets.numbers import join_numbers, parse_numbers
from pool.nets.record import (
    NETS,
    RECORD,
    NetPlan,
    NetState,
    create_export_check,
    net_file_name,
    read_record,
    write_record,
)
from pool.run_folder.files import publish
from pool.supervisor import numbered_nets
from pool.supervisor.listeners import SendRoster
from pool.supervisor.numbered_nets import NumberedNets
from tests.support.checkpoints import weights_of

CLICKS = {"task": "clicks", "model": {"fields": {"features": 50}}}


# --- what is next ---


def plan_of(states: dict[int, NetState], *checkpoints: int, has_command: bool = True) -> NetPlan:
    return NetPlan(5, has_command, states, checkpoints)


@pytest.mark.parametrize(
    ("plan", "exports", "trials", "next_step_to_try"),
    [
        pytest.param(plan_of({}, 0, 5, 7, 10), [5, 10], [], None, id="in order"),
        pytest.param(plan_of({5: NetState.WRITTEN}, 5, 10), [10], [5], 5, id="tried while the next is exported"),
        pytest.param(plan_of({5: NetState.WRITTEN, 10: NetState.WRITTEN}, 10), [], [5, 10], 5, id="tried in order"),
        pytest.param(plan_of({5: NetState.DONE, 10: NetState.DONE}, 5, 10, 15), [15], [], None, id="done"),
        pytest.param(
            plan_of({5: NetState.DONE, 10: NetState.WRITTEN, 15: NetState.NOT_WRITTEN}, 15, 20),
            [20],
            [10],
            10,
            id="resume",
        ),
        pytest.param(plan_of({5: NetState.WRITTEN}, 10, has_command=False), [10], [], None, id="no command"),
        pytest.param(
            plan_of({5: NetState.NOT_WRITTEN}, 5), [], [], None, id="what can't be exported is not tried again"
        ),
        # numbers would come after later ones, which the coordinator ignores: of another train.export_every, say
        pytest.param(
            plan_of({20: NetState.WRITTEN}, 15, 20, 25), [15, 25], [20], None, id="an earlier one is not exported"
        ),
    ],
)
def test_nets_are_exported_and_tried_in_the_order_of_the_steps(
    plan: NetPlan, exports: list[int], trials: list[int], next_step_to_try: int | None
) -> None:
    assert (plan.steps_to_export, plan.steps_to_try, plan.next_step_to_try) == (exports, trials, next_step_to_try)
    assert plan.unfinished_steps == sorted(exports + trials)


def test_nets_that_the_disk_did_not_take_and_commands_for_later_ones_wait_for_a_resumed_run() -> None:
    plan = plan_of({5: NetState.WRITTEN, 15: NetState.WRITTEN}, 10, 20)
    plan.postponed.add(10)
    assert (plan.steps_to_export, plan.steps_to_try, plan.next_step_to_try) == ([20], [5], 5)
    plan.states[5] = NetState.DONE
    assert (plan.unfinished_steps, plan.next_step_to_try) == ([20], None)


# --- the record ---


def test_the_record_is_read_as_far_as_its_lines_are_whole(tmp_path: Path) -> None:
    assert read_record(tmp_path) == {}
    write_record(tmp_path, {10: NetState.NOT_WRITTEN, 5: NetState.DONE})
    assert read_record(tmp_path) == {5: NetState.DONE, 10: NetState.NOT_WRITTEN}
    with (tmp_path / NETS / RECORD).open("a") as file:
        file.write('[]\n{"step": 15}\n{"step": 10, "is": "do')
    assert read_record(tmp_path) == {5: NetState.DONE, 10: NetState.NOT_WRITTEN}


def test_a_checkpoint_is_kept_until_its_nets_are_on_record(tmp_path: Path) -> None:
    for step in (4, 5, 6, 10, 11, 12):
        step_path(tmp_path / FOLDER, step).mkdir(parents=True)

    def left() -> list[int]:
        remove_old_checkpoints(tmp_path / FOLDER, keep=1, is_needed=create_export_check(tmp_path, 5))
        return sorted(int(path.name[5:]) for path in (tmp_path / FOLDER).iterdir())

    assert left() == [5, 10, 12]
    write_record(tmp_path, {5: NetState.WRITTEN})
    assert left() == [10, 12]


# --- the command's numbers ---


@pytest.mark.parametrize(
    ("output", "numbers"),
    [
        ("", {}),
        ("hello\n", {}),
        ('{"elo": 3}', {"elo": 3.0}),
        ('played\n{"elo": -1.5, "games": 40}\n\n', {"elo": -1.5, "games": 40.0}),
        ('{"elo": 3}\nbye\n', {}),
        ("[1, 2]", {}),
        ('{"a": true, "b": null, "c": "x", "d": NaN, "e": 1e999, "f g": 1, "": 2, "h": 4}', {"h": 4.0}),
        ('{"a": ' + "9" * 400 + "}", {}),
        ("[" * 100_000, {}),
    ],
)
def test_the_last_line_counts_if_it_is_an_object_and_its_finite_numbers_do(
    output: str, numbers: dict[str, float]
) -> None:
    assert parse_numbers(output) == numbers


def test_members_without_a_number_have_none() -> None:
    found = join_numbers(7, [{"elo": 1.0}, {}, {"elo": 3.0, "games": 2.0}])
    assert found.step == 7
    assert [(number.name, number.value) for number in found.numbers] == [("elo", 2.0), ("games", 2.0)]
    assert math.isnan(found.numbers[0].values[1])


# --- the files ---


@pytest.mark.parametrize(
    ("weights", "has_average", "averaged"),
    [(None, True, True), (None, False, False), ("newest", True, False), ("averaged", True, True)],
)
def test_a_net_has_the_averaged_weights_unless_there_are_none_or_others_are_asked_for(
    weights: str | None, has_average: bool, averaged: bool, tmp_path: Path
) -> None:
    config = parse_config({**CLICKS, "train": {"average": {"kind": "ema"}, "export_every": 4}}, "test")
    tensors = weights_of(config)
    checkpoint = store.Checkpoint(
        step=4,
        cursor=Cursor(1),
        config=config.model_dump(mode="json"),
        fingerprint={},
        data=[],
        weights=tensors,
        optimizer_tensors={},
        optimizer=OptimizerNumbers({}, [], []),
        average=tensors if has_average else {},
        averaged=int(has_average),
    )
    store.save_checkpoint(tmp_path, checkpoint)
    command = export_command(step_path(tmp_path, 4), tmp_path / "net", "clicks", weights, 3, "--onnx")
    words = command[command.index("export") :]
    average = ["--ema"] if averaged else []
    expected = [str(step_path(tmp_path, 4)), "-o", str(tmp_path / "net"), "--onnx", *average, "--member", "3"]
    assert words == ["export", *expected]


def test_a_checkpoint_that_is_not_there_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file or directory"):
        export_command(tmp_path / "no", tmp_path / "net", "clicks", None)


def test_nets_get_their_names_together_and_nobody_else_may_write_to_them(tmp_path: Path) -> None:
    beside = tmp_path / ".step-000000004.77.01234567.tmp"
    beside.mkdir()
    for name in ("a", "b"):
        (beside / name).write_text(name)
        (beside / name).chmod(0o666)
    publish(beside)
    files = [tmp_path / "a", tmp_path / "b"]
    assert [(path.read_text(), path.stat().st_mode & 0o777) for path in files] == [("a", 0o644), ("b", 0o644)]


# --- the supervisor's part, with programs in the place of `pool export` ---


def exported(
    run: Path, program: str, monkeypatch: pytest.MonkeyPatch, *, has_room: bool = True
) -> tuple[NumberedNets, list[str]]:
    """Has a program export the net of step 4, until it has ended; returns what the user was shown, too."""
    step_path(run / FOLDER, 4).mkdir(parents=True)
    (run / "logs").mkdir()

    def command_for(_checkpoint: Path, output: Path, *_: object) -> list[str]:
        return [sys.executable, "-c", f"import sys\noutput = {str(output)!r}\n{program}"]

    monkeypatch.setattr(numbered_nets, "export_command", command_for)
    monkeypatch.setattr(numbered_nets, "has_room", lambda _: has_room)
    config = parse_config({**CLICKS, "train": {"export_every": 4}}, "test")
    plan: Any = SimpleNamespace(config=config, step=4, saved=4, planned=SimpleNamespace(plans=[None]))
    folder: Any = SimpleNamespace(inside=run, path=run, moved_to=None, logs=run / "logs")
    lines: list[str] = []
    poller = zmq.Poller()
    nets = NumberedNets(plan, folder, poller, lines.append)
    assert (nets.status.settled, nets.poll({})) == (3, [])
    assert len(nets.pids) == 1
    while nets.pids:
        actions = nets.poll(dict(poller.poll()))
    assert actions == [SendRoster()]
    return nets, lines


def test_a_net_has_its_name_when_its_export_has_ended_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nets, lines = exported(tmp_path, "open(output, 'w').write('net')", monkeypatch)
    assert (lines, nets.status.settled) == ([], 4)
    assert sorted(path.name for path in (tmp_path / NETS).iterdir()) == [RECORD, net_file_name(4, ".safetensors")]
    assert read_record(tmp_path) == {4: NetState.WRITTEN}


@pytest.mark.parametrize(
    ("code", "has_room", "record", "advice"),
    [
        (EXIT_FAILED, True, {4: NetState.NOT_WRITTEN}, "training goes on"),
        (EXIT_FAILED, False, {}, "training goes on, and a resumed run tries again: make room"),  # in a library's words
        (EXIT_RESOURCES, True, {}, "training goes on, and a resumed run tries again: make room"),
    ],
)
def test_of_an_export_that_fails_nothing_stays_and_the_run_does_not_wait(
    code: int, has_room: bool, record: dict[int, NetState], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"open(output, 'w').write('half')\nsys.stderr.write(f'pool: {{output}}: no\\n')\nsys.exit({code})"
    nets, lines = exported(tmp_path, program, monkeypatch, has_room=has_room)
    assert lines == [
        f"nets of step 4 are not written: {tmp_path}/nets/{net_file_name(4, '.safetensors')}: no; {advice}"
    ]
    assert (nets.status.settled, read_record(tmp_path)) == (4, record)
    assert not list((tmp_path / NETS).glob("*step*"))


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        ({"on_export": ["true"]}, "train.on_export: does nothing without train.export_every"),
        ({"export_weights": "newest"}, "train.export_weights: does nothing without train.export_every"),
        ({"export_every": 2, "on_export": [""]}, "train.on_export: the first entry is the program"),
        ({"export_every": 2, "on_export": ["a", "b\0"]}, "train.on_export: no program can be given a NUL"),
        ({"export_every": 2, "export_weights": "averaged"}, "the run has no averaged weights: set train.average.kind"),
    ],
)
def test_keys_that_do_not_go_together_are_told(train: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_config({"train": train}, "test")
