"""Numbered nets without processes: what is next, what is remembered, what a command's last line says."""

from __future__ import annotations

import errno
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from loader.exit_codes import EXIT_RESOURCES
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.folder import remove_old, step_path
from pool.checkpoint.state import FOLDER, OptimizerNumbers
from pool.config.load import parse_config
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.nets import export
from pool.nets.export import Export, write_nets
from pool.nets.plan import NetPlan, joined, numbers_of
from pool.nets.record import NETS, RECORD, Net, add_to_record, net_name, read_record, still_to_export, write_record
from pool.process import lifeline
from tests.support.checkpoints import weights_of

CLICKS = {"task": "clicks", "model": {"fields": {"features": 50}}}


# --- what is next ---


def test_nets_are_exported_and_tried_in_order_one_at_a_time() -> None:
    plan = NetPlan(5, {}, has_command=True)
    plan.saved([0, 5, 7, 10])
    assert plan.unsettled == [5, 10]
    assert plan.next_export() == 5
    assert (plan.next_export(), plan.next_command()) == (None, None)
    assert plan.exported(Net.WRITTEN) == 5
    assert (plan.next_export(), plan.next_command()) == (10, 5)
    assert plan.next_command() is None
    assert plan.exported(Net.WRITTEN) == 10
    assert plan.unsettled == [5, 10]
    assert plan.done() == 5
    assert plan.next_command() == 10
    assert plan.done() == 10
    assert (plan.unsettled, plan.next_export(), plan.next_command()) == ([], None, None)
    plan.saved([5, 10, 15])
    assert plan.next_export() == 15


def test_a_resumed_run_does_what_is_left() -> None:
    states = {5: Net.DONE, 10: Net.WRITTEN, 15: Net.NOT_WRITTEN}
    plan = NetPlan(5, states, has_command=True)
    plan.saved([5, 10, 15, 20])
    assert plan.unsettled == [10, 20]
    assert (plan.next_export(), plan.next_command()) == (20, 10)
    without = NetPlan(5, states, has_command=False)
    assert (without.unsettled, without.next_command()) == ([], None)


def test_a_command_waits_for_the_nets_of_earlier_steps() -> None:
    """Their numbers would come after later ones, which the coordinator takes for old news. A step that is not on record
    may be behind one that is: of a full disk, or of another train.export_every."""
    plan = NetPlan(5, {20: Net.WRITTEN}, has_command=True)
    plan.saved([15, 20, 25])
    assert (plan.next_export(), plan.next_command()) == (15, None)
    plan.exported(Net.WRITTEN)
    assert (plan.next_export(), plan.next_command(), plan.done(), plan.next_command()) == (25, 15, 15, 20)


def test_what_can_not_be_exported_is_not_tried_again() -> None:
    plan = NetPlan(5, {}, has_command=True)
    plan.saved([5])
    plan.next_export()
    plan.exported(Net.NOT_WRITTEN)
    plan.saved([5])
    assert (plan.unsettled, plan.next_export(), plan.next_command()) == ([], None, None)


def test_what_the_disk_did_not_take_is_exported_again() -> None:
    plan = NetPlan(5, {}, has_command=True)
    plan.saved([5])
    plan.next_export()
    assert plan.postponed() == 5
    assert (plan.unsettled, plan.next_export(), plan.next_command()) == ([5], 5, None)


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, EXIT_RESOURCES), (errno.EDQUOT, EXIT_RESOURCES), (errno.EIO, EXIT_RESOURCES), (errno.EACCES, 1)],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_export_says_by_its_exit_code_whether_the_disk_was_full(
    number: int, code: int, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_export: Export) -> None:
        try:
            raise OSError(number, os.strerror(number), "net")
        except OSError as error:
            if wrapped:
                raise PoolError(str(error)) from None
            raise

    monkeypatch.setattr(export, "write_nets", fails)
    monkeypatch.setattr(lifeline, "die_with_parent", lambda _: None)
    arguments = ["1", *Export(Path("run"), 5, ".nnue", "clicks", 1, "").arguments()]
    assert export.main(arguments) == code

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)  # the log is on the same disk
    assert export.main(arguments) == code


def test_a_library_that_says_in_its_own_words_that_the_disk_is_full_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And attempts that fail alike say the same, whatever the name of the file that was being written."""
    said = []

    def fails(_checkpoint: Path, output: Path, *_: object) -> None:
        raise RuntimeError(f"cannot write {output}: IoError")

    monkeypatch.setattr("pool.export.export.export_checkpoint", fails)
    monkeypatch.setattr(export, "takes_average", lambda *_: False)
    for room, kind in ((False, PoolError), (False, PoolError), (True, RuntimeError)):
        monkeypatch.setattr(export, "has_room", lambda _, room=room: room)
        with pytest.raises(kind) as error:
            export.write_nets(Export(tmp_path, 5, ".nnue", "clicks", 1, ""))
        said.append(str(error.value))
        assert getattr(error.value, "exit_code", EXIT_RESOURCES) == EXIT_RESOURCES
    assert said[0] == said[1]
    assert not list((tmp_path / "nets").iterdir())


def test_a_run_that_is_stopped_begins_nothing_and_waits_for_nothing() -> None:
    plan = NetPlan(5, {5: Net.WRITTEN}, has_command=True)
    plan.saved([10])
    plan.stop()
    assert (plan.unsettled, plan.next_export(), plan.next_command()) == ([], None, None)


# --- the record ---


def test_the_record_outlives_a_writer_that_is_killed_in_a_line(tmp_path: Path) -> None:
    assert read_record(tmp_path) == {}
    add_to_record(tmp_path, 5, Net.WRITTEN)
    add_to_record(tmp_path, 10, Net.NOT_WRITTEN)
    add_to_record(tmp_path, 5, Net.DONE)
    with (tmp_path / NETS / RECORD).open("a") as file:
        file.write('{"step": 10, "is": "do')
    assert read_record(tmp_path) == {5: Net.DONE, 10: Net.NOT_WRITTEN}
    add_to_record(tmp_path, 15, Net.WRITTEN)
    assert read_record(tmp_path) == {5: Net.DONE, 10: Net.NOT_WRITTEN, 15: Net.WRITTEN}
    write_record(tmp_path, {5: Net.DONE})
    assert read_record(tmp_path) == {5: Net.DONE}


def test_a_checkpoint_is_kept_until_its_nets_are_on_record(tmp_path: Path) -> None:
    for step in (4, 5, 6, 10, 11, 12):
        step_path(tmp_path / FOLDER, step).mkdir(parents=True)

    def left() -> list[int]:
        remove_old(tmp_path / FOLDER, keep=1, wanted=still_to_export(tmp_path, 5))
        return sorted(int(path.name[5:]) for path in (tmp_path / FOLDER).iterdir())

    assert left() == [5, 10, 12]
    add_to_record(tmp_path, 5, Net.WRITTEN)
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
    assert numbers_of(output) == numbers


def test_members_without_a_number_have_none() -> None:
    found = joined(7, [{"elo": 1.0}, {}, {"elo": 3.0, "games": 2.0}])
    assert found.step == 7
    assert [(number.name, number.value) for number in found.numbers] == [("elo", 2.0), ("games", 2.0)]
    assert math.isnan(found.numbers[0].values[1])


# --- the files ---


def saved(run: Path, *, averaged: bool) -> dict[str, bytes]:
    """A run with one checkpoint; returns what it holds of one parameter, by kind."""
    run.mkdir()
    config = parse_config({**CLICKS, "train": {"average": {"kind": "ema"}, "export_every": 4}}, "test")
    weights = weights_of(config)
    average = {name: tensor + 1 for name, tensor in weights.items()}
    found = store.Checkpoint(
        step=4,
        cursor=Cursor(1),
        config=config.model_dump(mode="json"),
        fingerprint={},
        data=[],
        weights=weights,
        optimizer_tensors={},
        optimizer=OptimizerNumbers({}, [], []),
        average=average if averaged else {},
        averaged=int(averaged),
    )
    store.save(run / FOLDER, found)
    name = next(iter(weights))
    return {"newest": weights[name].numpy().tobytes(), "averaged": average[name].numpy().tobytes()}


EXPORT = Export(Path(), 4, ".safetensors", "clicks", 1, "")


@pytest.mark.parametrize(
    ("weights", "averaged", "expected"),
    [("", True, "averaged"), ("", False, "newest"), ("newest", True, "newest"), ("averaged", True, "averaged")],
)
def test_a_net_has_the_averaged_weights_unless_there_are_none_or_others_are_asked_for(
    weights: str, averaged: bool, expected: str, tmp_path: Path
) -> None:
    known = saved(tmp_path / "run", averaged=averaged)
    (tmp_path / "run" / NETS).mkdir()
    left = tmp_path / "run" / NETS / ".step-000000004.77.01234567.tmp"
    left.mkdir()
    write_nets(replace(EXPORT, run=tmp_path / "run", weights=weights))
    assert [path.name for path in (tmp_path / "run" / NETS).iterdir()] == [net_name(4, ".safetensors")]
    tensors = load_file(tmp_path / "run" / NETS / net_name(4, ".safetensors"))
    assert known[expected] in [tensor.tobytes() for tensor in tensors.values()]


def test_a_net_of_averaged_weights_that_are_not_there_yet_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "run", averaged=False)
    with pytest.raises(CheckpointError, match="has no averaged weights"):
        write_nets(replace(EXPORT, run=tmp_path / "run", weights="averaged"))
    assert not list((tmp_path / "run" / NETS).iterdir())


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
