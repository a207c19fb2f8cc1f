"""Whole recipes: stages begin as they say, what is done is left alone, and a kill changes nothing."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.paths import ROOT, SAMPLE
from tests.support.recipes import digests, stage, train, write
from tests.support.runs import STOCKFISH, TOY, Ended, run_well
from tests.support.wait import wait_for

STAGES = """
[[stage]]
name = "first"
train.average = { kind = "swa", start = 4, every = 2 }

[[stage]]
name = "second"
optimizer.args.lr = 0.003
train = { steps = 6, batches_per_step = 4, start_weights = "averaged" }

[[stage]]
name = "third"
start_with = "checkpoint"
data.batch_size = 32
train = { steps = 14, batches_per_step = 3 }

[[stage]]
name = "fourth"
start_with = "checkpoint"
optimizer.groups = [{ tensors = ["*bias*"], args = { lr = 0.002 } }]
schedule = { name = "torch.optim.lr_scheduler.ExponentialLR", args = { gamma = 0.9 } }
train.steps = 20
"""
TOY_STAGES = {**TOY, "train.checkpoint_every": 3, "train.keep_every": 6}


def all_files(runs: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in runs.rglob("*") if path.is_file()}


def _ended_or_made(process: subprocess.Popen[bytes], runs: Path, files: int) -> Callable[[], bool]:
    """Counted by os.walk, which passes over a folder that the recipe renames meanwhile."""
    return lambda: process.poll() is not None or sum(len(f) + len(d) for _, d, f in os.walk(runs)) >= files


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe that was trained without any trouble; its folder."""
    tmp_path = tmp_path_factory.mktemp("recipe")
    train(write(tmp_path, TOY_STAGES, STAGES))
    return tmp_path


def test_stages_begin_with_what_the_one_before_leaves(done: Path, tmp_path: Path) -> None:
    """Each is the run that its user would have begun by hand."""
    first, second, third = (stage(done / "runs", name) for name in ("first", "second", "third"))
    settings = {
        **TOY_STAGES,
        "optimizer.args.lr": 0.003,
        "train.steps": 6,
        "train.batches_per_step": 4,
        "train.start_weights": "averaged",
        "model.start_from": str(first),
    }
    alone = run_well(tmp_path / "alone", settings)
    assert alone.digest() == Ended(second, 0, "", "").digest()
    start = third / "checkpoints/step-000000006"
    for name in ("weights.safetensors", "optimizer.safetensors"):
        before = load_file(second / "checkpoints/step-000000006" / name)
        assert all(np.array_equal(before[key], array) for key, array in load_file(start / name).items())
    metrics = [record["step"] for record in Ended(third, 0, "", "").metrics() if "loss" in record]
    assert metrics == list(range(7, 15))
    last = [record for record in Ended(stage(done / "runs", "fourth"), 0, "", "").metrics() if "loss" in record]
    rates = [record["learning_rate"] for record in last]
    assert rates == pytest.approx([0.01 * 0.9 ** (record["step"] - 1) for record in last]), (
        "of all steps, not of its own"
    )


def test_what_is_done_is_left_alone_by_anybody(done: Path) -> None:
    before = all_files(done / "runs")
    said = train(done / "recipe.toml")
    assert all_files(done / "runs") == before
    assert "stage first" not in said
    listed = train(done / "recipe.toml", "--list").splitlines()
    assert [line.split()[2] for line in listed] == ["state", "done", "done", "done", "done"]
    assert all_files(done / "runs") == before


@pytest.mark.parametrize("devices", [["fake:0"], ["fake:0", "fake:1", "fake:2", "fake:3"]])
def test_the_bits_do_not_depend_on_the_number_of_workers(done: Path, tmp_path: Path, devices: list[str]) -> None:
    train(write(tmp_path, {**TOY_STAGES, "pool.devices": devices}, STAGES))
    assert digests(tmp_path / "runs") == digests(done / "runs")


def names(runs: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] + path.suffix for path in runs.iterdir())


@pytest.mark.parametrize(
    ("settings", "change", "again"),
    [
        ({}, ("gamma = 0.9", "gamma = 0.8"), ["fourth"]),
        ({}, ("steps = 14", "steps = 10"), ["third", "fourth"]),
        ({}, ("lr = 0.003", "lr = 0.004"), ["second", "third", "fourth"]),
        ({}, ("every = 2", "every = 4"), ["first", "second", "third", "fourth"]),
        ({"run.seed": 2}, ("", ""), ["first", "second", "third", "fourth"]),
        ({"train.checkpoint_every": 4, "pool.devices": ["fake:0"], "run.sinks": []}, ("", ""), []),
        ({}, ("steps = 14", "steps = 0xE"), []),
    ],
)
def test_a_change_trains_again_what_depends_on_it(
    settings: dict[str, Any], change: tuple[str, str], again: list[str], done: Path, tmp_path: Path
) -> None:
    shutil.copytree(done / "runs", tmp_path / "runs", symlinks=True)
    before = all_files(tmp_path / "runs")
    assert change[0] in STAGES
    train(write(tmp_path, {**TOY_STAGES, **settings}, STAGES.replace(*change)))
    assert {path: what for path, what in all_files(tmp_path / "runs").items() if path in before} == before
    assert names(tmp_path / "runs") == sorted(["first", "second", "third", "fourth", *again])


def test_a_rerun_trains_what_follows_from_a_stage_and_keeps_what_was_there(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done / "runs", tmp_path / "runs", symlinks=True)
    config = write(tmp_path, TOY_STAGES, STAGES)
    before = digests(tmp_path / "runs")
    train(config, "--rerun", "third")
    assert names(tmp_path / "runs") == ["first", "fourth", "fourth.1", "second", "third", "third.1"]
    assert digests(tmp_path / "runs") == before


def test_until_ends_with_a_stage_and_the_next_call_goes_on(done: Path, tmp_path: Path) -> None:
    config = write(tmp_path, TOY_STAGES, STAGES)
    assert "done up to first" in train(config, "--until", "first")
    assert not list((tmp_path / "runs").glob("second-*"))
    train(config)
    assert digests(tmp_path / "runs") == digests(done / "runs")
    assert "--until forth: no such stage" in train(config, "--until", "forth", code=2)


def test_killed_again_and_again_it_ends_with_the_same_bits(done: Path, tmp_path: Path) -> None:
    """At any moment: in a stage, between two, while a checkpoint is handed on."""
    config = write(tmp_path, TOY_STAGES, STAGES)
    moments = random.Random(17)
    runs = tmp_path / "runs"
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-m", "pool", "recipe", str(config)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            wait_for(_ended_or_made(process, runs, moments.randrange(1, 60)), "some files", 120)
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0:
                break
    train(config)
    assert digests(runs) == digests(done / "runs")


def test_a_network_and_its_test_are_made_once_and_another_test_trains_nothing(tmp_path: Path) -> None:
    settings = {**STOCKFISH, "train.validate_every": 0, "train.steps": 2}
    stages = """
[stages]
export = true
test = ["sh", "-c", "echo tested $0", "{net}"]
[[stage]]
name = "only"
"""
    config = write(tmp_path, settings, stages)
    train(config)
    only = stage(tmp_path / "runs", "only")
    (network,) = only.glob("nn-????????????.nnue")
    assert (only / "test.log").read_text().splitlines()[1:] == [f"tested {network}"]
    checkpoints = all_files(only / "checkpoints")
    train(config)
    assert (only / "test.log").read_text().count("\ntested") == 1
    write(tmp_path, settings, stages.replace("echo tested", "exit 3; echo tested"))
    assert "to do" in train(config, "--list")
    assert "stage only: its test failed: exit code 3" in train(config, code=1)
    assert "failed" in train(config, "--list")
    ordered = stages.replace("export = true", f"export = true\npermute = ['{SAMPLE / 'validation.binpack'}']")
    write(tmp_path, settings, ordered)
    assert train(config, "--list").count("to do") == 2, "another order: another network, and a test of it"
    network.unlink()
    write(tmp_path, settings, stages)
    train(config)
    assert network.is_file()
    assert all_files(only / "checkpoints") == checkpoints


def test_a_network_whose_bytes_are_not_those_of_its_name_is_written_again(tmp_path: Path) -> None:
    settings = {**STOCKFISH, "train.validate_every": 0, "train.steps": 2}
    config = write(tmp_path, settings, '[stages]\nexport = true\n[[stage]]\nname = "only"\n')
    train(config)
    (network,) = stage(tmp_path / "runs", "only").glob("nn-????????????.nnue")
    content = network.read_bytes()
    for other in (content[:-1], bytes([content[0] ^ 1]) + content[1:], b""):
        network.write_bytes(other)
        assert "to do" in train(config, "--list")
        assert f"stage only: {network} has other bytes than those it was named by; it is written again" in train(config)
        assert network.read_bytes() == content
        assert "to do" not in train(config, "--list")


@pytest.mark.parametrize("start_with", ["weights", "checkpoint"])
@pytest.mark.parametrize("damaged", ["weights.safetensors", "state.json"])
def test_a_damaged_checkpoint_that_a_stage_starts_from_is_named_with_what_to_do(
    start_with: str, damaged: str, tmp_path: Path
) -> None:
    tables = f"""
[[stage]]
name = "first"
[[stage]]
name = "second"
start_with = "{start_with}"
train.steps = 14
"""
    config = write(tmp_path, TOY_STAGES, tables)
    train(config, "--until", "first")
    file = stage(tmp_path / "runs", "first") / "checkpoints/last" / damaged
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    said = train(config, code=1).splitlines()[-1]
    whose = "stage second: it starts from first: " if damaged == "weights.safetensors" else "stage first: "
    assert said.startswith(f"pool: {whose}")
    assert "is damaged" in said
    assert said.endswith("--rerun first trains that anew, or put the file back from a copy") or damaged == "state.json"
    assert "all stages are done" in train(config, "--rerun", "first")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ('test = ["no-such-program"]', "stage only: test: no-such-program: no such program"),
        ('permute = ["nowhere/*.binpack"]', "stage only: permute: no file matches 'nowhere/"),
        ("permute = ['/etc']", "stage only: permute: '/etc' is a folder"),
    ],
)
def test_what_the_end_of_a_stage_needs_is_looked_for_before_the_first_begins(
    end: str, said: str, tmp_path: Path
) -> None:
    config = write(tmp_path, STOCKFISH, f"[stages]\nexport = true\n{end}\n[[stage]]\nname = 'only'\n")
    for name in ("check", "recipe"):
        assert said in train(config, code=69, name=name)
    assert not list(tmp_path.glob("runs/*/checkpoints"))


def test_a_test_ends_with_the_command(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    end = f"[stages]\nexport = true\ntest = ['sh', '-c', 'echo $$ > {pid}; exec sleep 600']\n"
    config = write(
        tmp_path, {**STOCKFISH, "train.validate_every": 0, "train.steps": 1}, f"{end}[[stage]]\nname = 'only'\n"
    )
    with subprocess.Popen([sys.executable, "-m", "pool", "recipe", str(config)], cwd=ROOT) as process:
        wait_for(lambda: pid.is_file() and pid.read_text().endswith("\n"), "the test", 120)
        process.send_signal(signal.SIGTERM)
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    wait_for(lambda: not stat.exists() or ") Z " in stat.read_text(), "the test's end", 60)


def test_a_finished_recipe_needs_no_right_to_write(tmp_path: Path) -> None:
    """And the stages behind one may have data that is still to be made."""
    settings = {**STOCKFISH, "train.validate_every": 0, "train.steps": 1}
    later = '[[stage]]\nname = "later"\ndata.train = ["later.binpack"]\n'
    config = write(tmp_path, settings, f'[stages]\nexport = true\n[[stage]]\nname = "only"\n{later}')
    train(config, "--until", "only")
    only = stage(tmp_path / "runs", "only")
    (only / "lock").unlink()
    before = all_files(only)
    train(config, "--until", "only")
    assert all_files(only) == before
    assert "stage later: data.train: no file matches 'later.binpack'" in train(config, code=69)
    assert [line.split()[2:4] for line in train(config, "--list").splitlines()[1:]] == [["done", "1"], ["no", "data"]]
    train(config, "--until", "only", "--rerun", "only")
    assert only.with_name(f"{only.name}.1").is_dir()


def test_a_folder_that_went_on_by_itself_is_no_stage(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done / "runs", tmp_path / "runs", symlinks=True)
    config = write(tmp_path, TOY_STAGES, STAGES)
    first = stage(tmp_path / "runs", "first")
    train(first, "--resume", "--set", "train.steps=14", name="train")
    said = f"stage first: {first} was gone on with by itself: it has train.steps = 14, the recipe 12"
    for name in ("check", "recipe"):
        assert said in train(config, code=2, name=name)
    first.rename(tmp_path / "elsewhere")
    second = stage(tmp_path / "runs", "second")
    train(second, "--resume", "--set", "train.steps=8", "--override", "optimizer.args.lr=0.5", name="train")
    assert f"stage second: {second} was gone on with by itself" in train(config, "--until", "second", code=2)
    second.rename(tmp_path / "elsewhere too")
    train(config)
    assert digests(tmp_path / "runs") == digests(done / "runs")


def test_a_stage_may_begin_with_the_checkpoint_of_a_run_that_was_overridden(tmp_path: Path) -> None:
    before = write(tmp_path, {**TOY, "train.steps": 4}, "")
    train(before, name="train")
    train(before, "--resume", "--set", "train.steps=8", "--override", "optimizer.args.lr=0.02", name="train")
    start = (tmp_path / "runs").rename(tmp_path / "before")
    own = f'[[stage]]\nname = "own"\nstart_from = "{start}"\nstart_with = "checkpoint"\n'
    config = write(tmp_path, {**TOY, "train.steps": 10}, own)
    assert "samples of the run    256 in 2 steps behind 8" in train(config, name="check")
    train(config)
    before_again = all_files(tmp_path / "runs")
    train(config)
    assert all_files(tmp_path / "runs") == before_again
    write(tmp_path, {**TOY, "train.steps": 8}, own)
    assert "train.steps: 8 in all, and" in train(config, code=2)


def test_a_rerun_goes_on_when_it_is_given_again(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done / "runs", tmp_path / "runs", symlinks=True)
    config = write(tmp_path, TOY_STAGES, STAGES)
    train(config, "--rerun", "third", "--until", "third")
    (stage(tmp_path / "runs", "third") / "status.json").unlink()  # as if it had not ended
    assert "--rerun third: it is not done, and goes on" in train(config, "--rerun", "third")
    assert names(tmp_path / "runs") == ["first", "fourth", "fourth.1", "second", "third", "third.1"]
    assert "--rerun fourth: comes behind --until third" in train(
        config, "--rerun", "fourth", "--until", "third", code=2
    )


def test_check_looks_at_all_stages_before_the_first_begins(tmp_path: Path) -> None:
    said = train(write(tmp_path, TOY_STAGES, STAGES), name="check")
    assert [line for line in said.splitlines() if line.startswith("Stage")] == [
        f"Stage {name}: new" for name in ("first", "second", "third", "fourth")
    ]
    assert not (tmp_path / "runs").exists()
    assert "samples of the run    768 in 8 steps behind 6" in said
    assert "learning rate         0.00229 now" in said.partition("Stage fourth")[2], "where it begins"
    other = STAGES.replace("data.batch_size = 32", "model.hidden = 8")
    said = train(write(tmp_path, TOY_STAGES, other), code=2, name="check")
    assert "third: its model is not that of second, which it starts from: table.weight: float32 1000 x 8 in" in said


def test_recipes_and_other_configs_name_each_others_command(tmp_path: Path) -> None:
    config = write(tmp_path, TOY_STAGES, STAGES)
    for options in ([], ["--resume"], ["--trace", "x.json"]):
        assert "pool recipe trains it" in train(config, *options, code=2, name="train")
    for option in (["--measure"], ["--machines", "2"]):
        assert f"{option[0]}: {config} is a recipe" in train(config, *option, code=2, name="check")
    plain = write(tmp_path, TOY_STAGES, "")
    assert "pool train trains other configs" in train(plain, "--list", code=2)
    assert not (tmp_path / "runs").exists()


def test_a_stage_that_another_command_ends_is_left_to_it(tmp_path: Path) -> None:
    config = write(tmp_path, {**STOCKFISH, "train.validate_every": 0, "train.steps": 1}, '[[stage]]\nname = "only"\n')
    train(config)
    config.write_text(config.read_text().replace("[[stage]]", "[stages]\nexport = true\n[[stage]]"))
    only = stage(tmp_path / "runs", "only")
    with (only / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert f"{only} is in use by another run" in train(config, code=69)
    train(config)
    assert list(only.glob("nn-*"))
