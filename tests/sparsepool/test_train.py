"""`sparsepool.train`: real runs from a script, a thread and a notebook-like output; tasks by module and name."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import types
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsepool
from pool.errors import ConfigError
from pool.task.factory import make_task
from pool.task.registry import load_task_module
from sparsepool import RunFailedError, SparsepoolError
from sparsepool.plain import encode_json, task_name
from tests.sparsepool import mine
from tests.support.runs import TOY, Ended, elsewhere, run_well, toml
from tests.support.wait import wait_for

pytestmark = pytest.mark.runs

QUICK = {**TOY, "train.steps": 6, "train.batches_per_step": 1, "pool.devices": ["fake:0"]}
OF_TASK = {key: value for key, value in QUICK.items() if key not in ("task", "train.steps")}


def test_it_has_the_bits_of_the_command_and_an_event_loop_goes_on(tmp_path: Path) -> None:
    expected = run_well(tmp_path / "command", TOY)
    (tmp_path / "toy.toml").write_text(toml({**TOY, "train.steps": 3}))
    out = io.StringIO()

    async def notebook() -> sparsepool.Result:
        overrides = {"train.steps": np.int64(12), "run.dir": tmp_path / "front"}
        running = asyncio.create_task(asyncio.to_thread(sparsepool.train, tmp_path / "toy.toml", overrides))
        ticks = 0
        while not running.done():
            await asyncio.sleep(0)
            ticks += 1
        assert ticks > 100
        return await running

    with redirect_stdout(out):
        result = asyncio.run(notebook())
    assert (result.run_dir, result.exit_code) == (tmp_path / "front", 0)
    assert Ended(result.run_dir, 0, "", "").digest() == expected.digest()
    assert result.weights().keys() == expected.weights().keys()
    assert [line["loss"] for line in result.metrics()] == [line["loss"] for line in expected.metrics()]
    assert result.checkpoint == tmp_path / "front/checkpoints/step-000000012"
    assert result.best_checkpoint is None
    assert "step 12/12" in out.getvalue()


def test_a_class_of_a_module_is_trained_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sections = {"train": {"steps": 2}, "run": {"dir": tmp_path / "run"}}  # dotted keys go into them, in any order
    tree = {"model.width": 5, "train.checkpoint_every": 1, **OF_TASK, **sections}
    result = sparsepool.train(tree, task=mine.Mine, quiet=True)
    assert result.weights()["0.weight"].shape == (1000, 5)
    assert len(result.metrics()) == 2
    assert result.weights(result.run_dir / "checkpoints/step-000000001")["1.bias"].sum() != 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "code", "complaint"),
    [
        ({"train.stepz": 1}, 2, "config: train.stepz: unknown key; allowed here: steps"),
        ({"loss.infinite_gradient_of_batch": 2}, 1, "not finite"),
    ],
)
def test_a_run_that_fails_is_one_exception(
    changes: dict[str, Any], code: int, complaint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunFailedError, match=complaint) as error:
        sparsepool.train({**QUICK, "run.dir": str(tmp_path / "run")}, changes, quiet=True)
    assert error.value.exit_code == code
    assert not str(error.value).startswith("pool: ")
    assert error.value.run_dir == (tmp_path / "run" if code == 1 else None)
    assert capfd.readouterr() == ("", "")


SCRIPT = """
import sparsepool
try:
    sparsepool.train({settings!r})
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_quiet_run_says_how_the_workers_died_that_end_it(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as caught:
        sparsepool.train({**QUICK, "model.deadly_batch": 2, "run.dir": str(tmp_path / "run")}, quiet=True)
    assert "batch 2 of step 2: 3 workers died while they held it" in str(caught.value)
    assert "worker 0 (incarnation 3) was killed by SIGKILL, it was computing batch 2" in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_and_the_callers_death_leave_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {**QUICK, "train.steps": 1_000_000, "train.checkpoint_every": 0, "run.dir": str(run)}
    words = [sys.executable, "-c", SCRIPT.format(settings=settings)]
    script = subprocess.Popen(words, cwd=tmp_path, env=elsewhere(), stdout=subprocess.PIPE, text=True)
    metrics = run / "metrics.jsonl"
    try:
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 3, "steps are done")
        script.send_signal(number)
        last = run / "checkpoints/last"
        wait_for(lambda: last.exists(), "a checkpoint is written")
        out, _ = script.communicate(timeout=100)
        assert out.endswith("interrupted\n") == (number is signal.SIGINT)
        wait_for(lambda: not holders_of(run), "the run has ended")
    finally:
        end(script, run)


LEAVING = """
import ctypes, os, signal, sys, threading
from pathlib import Path
import sparsepool

class Leave(BaseException): pass
class FullOutput:
    def write(self, text): raise Leave("standard output")
    def flush(self): pass

def leave(*_): raise Leave("a signal's handler")

def inject():
    metrics = Path({run!r}) / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\\n") < 3:
        threading.Event().wait(0.01)
    if {how!r} == "signal":
        os.kill(os.getpid(), signal.SIGALRM)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Leave))

main = threading.get_ident()
signal.signal(signal.SIGALRM, leave)
output = sys.stdout
if {how!r} == "output":
    sys.stdout = FullOutput()
else:
    threading.Thread(target=inject, daemon=True).start()
try:
    sparsepool.train({settings!r}, quiet={how!r} == "thread")
except Leave as error:
    sys.stdout = output
    print("left by", error)
"""


@pytest.mark.parametrize("how", ["signal", "thread", "output"])
def test_whatever_leaves_the_call_stops_the_run(how: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {**QUICK, "train.steps": 1_000_000, "train.checkpoint_every": 0, "run.dir": str(run)}
    words = [sys.executable, "-c", LEAVING.format(settings=settings, run=str(run), how=how)]
    script = subprocess.Popen(words, cwd=tmp_path, env=elsewhere(), stdout=subprocess.PIPE, text=True)
    try:
        out, _ = script.communicate(timeout=100)
        assert "left by" in out.splitlines()[-1], out
        assert not holders_of(run), "the run has ended when the exception is raised"
        assert (run / "checkpoints/last").exists() == (how != "output"), "which fails with the first line"
    finally:
        end(script, run)


def end(script: subprocess.Popen[str], run: Path) -> None:
    """Whatever a failed test has left: a run of a million steps."""
    with script:
        script.kill()
    for pid in holders_of(run):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def holders_of(run: Path) -> list[int]:
    """Processes that hold the run's folder open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                found += [int(entry.name) for fd in (entry / "fd").iterdir() if str(fd.readlink()) == str(run)]
            except OSError:
                continue
    return found


def test_results_of_any_run_are_read_from_its_folder(tmp_path: Path) -> None:
    result = sparsepool.Result(tmp_path)
    with pytest.raises(SparsepoolError, match="is no checkpoint folder"):
        result.weights()
    with pytest.raises(SparsepoolError, match=r"metrics\.jsonl: No such file"):
        result.metrics()
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": NaN}\n{"step": 2, "lo')
    assert [record["step"] for record in result.metrics()] == [1]


# --- tasks by name ---


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("some.module:Class", "some.module:Class"),
        (mine, "tests.sparsepool.mine"),
        (mine.Mine, "tests.sparsepool.mine:Mine"),
        (mine.Holder.Inner, "tests.sparsepool.mine:Holder.Inner"),
        (mine.made, "tests.sparsepool.mine:made"),
    ],
)
def test_what_lies_in_a_module_is_named_by_it(task: Any, name: str) -> None:
    assert task_name(task) == name


def of_main() -> type:
    return type("Mine", (), {"__module__": "__main__", "__qualname__": "Mine"})


def of_no_file() -> types.ModuleType:
    return types.ModuleType("written_in_a_string")


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        (of_main(), "task: Mine of __main__: is in the script or notebook .*: move it into a file of its own"),
        (lambda: 3, "task: a lambda has no name: write a class at the top level"),
        (
            mine.local(),
            "local.<locals>.Local of tests.sparsepool.mine: is defined inside a function.*: move it to the top",
        ),
        (
            mine.WithoutSettings(),
            "an object of WithoutSettings, which has no name in a module: give the class, or write",
        ),
        (of_no_file(), "there is no file that module written_in_a_string could be imported from"),
        (type("Mine", (), {"__module__": mine.__name__}), "tests.sparsepool.mine.Mine is something else by now"),
    ],
)
def test_what_no_process_can_find_is_one_line_that_says_what_to_do(task: Any, complaint: str) -> None:
    with pytest.raises(SparsepoolError, match=complaint) as error:
        sparsepool.train({}, task=task)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(("name", "width"), [("Mine", 8), ("WithoutSettings", 4), ("made", 4), ("Holder.Inner", 4)])
def test_a_class_or_an_object_is_a_task_with_its_own_settings(name: str, width: int) -> None:
    module = load_task_module(f"tests.sparsepool.mine:{name}")
    task = make_task(f"tests.sparsepool.mine:{name}", module.ModelConfig(), module.LossConfig())
    assert task.build_model()[0].weight.shape == (1000, width)  # type: ignore[index]
    assert module.ModelConfig.model_fields.keys() == {"width"}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("tests.sparsepool.mine:Holder", "task: tests.sparsepool.mine:Holder: has no ModelConfig"),
        ("tests.sparsepool.mine:Nobody", "task: module 'tests.sparsepool.mine' has no Nobody"),
        ("tests.sparsepool.mine", r"task: module 'tests.sparsepool.mine' \(.*mine.py\): has no ModelConfig"),
    ],
)
def test_what_is_no_task_is_named(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_task_module(name)


def test_settings_are_plain_data() -> None:
    given = {"a": Path("/x"), "b": np.float32(0.5), "c": (1, np.int8(2)), "d": np.arange(2), "e": float("inf")}
    assert json.loads(encode_json(given)) == {"a": "/x", "b": 0.5, "c": [1, 2], "d": [0, 1], "e": float("inf")}
    with pytest.raises(SparsepoolError, match="is of type set: settings are numbers"):
        encode_json({"a": {1, 2}})


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file as save_tensors

    from sparsepool.result import _load_with_torch

    save_tensors({"w": torch.tensor([1.5], dtype=torch.bfloat16)}, tmp_path / "w.safetensors")
    assert _load_with_torch(tmp_path / "w.safetensors")["w"].dtype == np.float32
