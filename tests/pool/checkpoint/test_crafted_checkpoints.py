"""Checkpoints with right sums whose content no run has written: refused in one line, by file and field (I8)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pool.checkpoint import store
from pool.checkpoint.folder import find_newest_undamaged
from pool.checkpoint.state import FOLDER, FORMAT, OPTIMIZER, STATE, WEIGHTS
from pool.config.load import load_config
from pool.errors import CheckpointError, ConfigError
from pool.exchange.tensors import torch_dtype
from pool.optim.buckets import BucketOptimizers
from pool.planner import planner
from pool.planner.trial import try_saved_state
from pool.process.plan_result import Accepted
from pool.protocol.identity import PLANNER, Peer
from pool.supervisor.prepare.resume import compare_model, compare_numerics, compare_optimizer, resume_point, saved_state
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder
from tests.support.crafted import Tree, read, reseal, reseal_header, reseal_tensors, seal
from tests.support.run_plans import run_plan
from tests.support.runs import TOY, run_well

SETTINGS = {
    **TOY,
    "train.steps": 4,
    "train.checkpoint_every": 2,
    "schedule.name": "torch.optim.lr_scheduler.MultiStepLR",
    "schedule.args.milestones": [2, 9],
}
NAME = "step-000000004"


@dataclass(frozen=True)
class Genuine:
    """A run of four steps that has ended."""

    dir: Path
    run: RunPlan


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Genuine:
    folder = tmp_path_factory.mktemp("genuine") / "run"
    run_well(folder, SETTINGS)
    config = load_config(folder.with_name("run.toml"))
    saved = saved_state(folder / FOLDER / NAME)
    run = run_plan(
        folder,
        config=config,
        step=4,
        cursor=saved.cursor,
        saved=4,
    )
    answer = planner.run(run.planner_start(Peer(PLANNER)))
    assert isinstance(answer, Accepted)
    planned = replace(answer.planned, fingerprint=saved.fingerprint)  # this process has another environment
    return Genuine(folder, replace(run, answer=planned))


@pytest.fixture
def copied(genuine: Genuine, tmp_path: Path) -> Path:
    """The checkpoint of step 4, in a run folder of its own."""
    shutil.copytree(genuine.dir, tmp_path / "run", symlinks=True)
    return tmp_path / "run" / FOLDER / NAME


def resume(genuine: Genuine, checkpoint: Path) -> None:
    """All that reads a checkpoint when a run is resumed, in this process."""
    config, run = genuine.run.config, genuine.run
    found = find_newest_undamaged(checkpoint.parent)
    assert (found.good, found.damaged) == (checkpoint, ())
    resume_point(config, checkpoint, ())
    plan = run.planned.plan
    try_saved_state(config, [plan], checkpoint)
    saved = saved_state(checkpoint)
    folder = RunFolder(
        config.model_copy(update={"run": config.run.model_copy(update={"dir": str(checkpoint.parents[1])})}),
        resume=True,
    )
    try:
        compare_model(run, checkpoint, saved)
        compare_optimizer(config, checkpoint, saved, folder)
        compare_numerics(run, checkpoint, saved, folder, allowed=False)
    finally:
        folder.close()
    loaded = store.load_checkpoint(checkpoint)
    parameters = [nn.Parameter(torch.zeros(t.shape, dtype=torch_dtype(t.dtype))) for t in plan.parameters]
    optimizers = BucketOptimizers(plan, parameters, config.optimizer, config.run_schedule)
    optimizers.load_state(loaded.optimizer_tensors, loaded.optimizer.plain())


def put(key: str, value: Any) -> Callable[[Path], None]:
    """`key` of state.json becomes `value`; `...` takes it away."""

    def change(tree: Tree) -> None:
        *path, last = [int(part) if part.isdecimal() else part for part in key.split("/")]
        for part in path:
            tree = tree[part]  # type: ignore[index]
        if value is ...:
            del tree[last]  # type: ignore[arg-type]
        else:
            tree[last] = value  # type: ignore[index]

    return lambda checkpoint: reseal(checkpoint, change)


def text(change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda checkpoint: seal(checkpoint, change(json.dumps(read(checkpoint))))


def header(change: Callable[[Tree], object], name: str = WEIGHTS) -> Callable[[Path], None]:
    return lambda checkpoint: reseal_header(checkpoint, change, name)


def raw_header(content: bytes) -> Callable[[Path], None]:
    return lambda checkpoint: reseal_tensors(checkpoint, content, b"")


def entry(name: str, **changes: Any) -> Callable[[Path], None]:
    return header(lambda tree: tree[name].update(changes))


def twice(checkpoint: Path) -> None:
    content = (checkpoint / WEIGHTS).read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    text = content[8:begin].rstrip().decode()
    reseal_tensors(checkpoint, (text[:-1] + "," + text[1:]).encode(), content[begin:])


def swapped(tree: Tree) -> None:
    tree["output.bias"]["data_offsets"], tree["extra.bias"]["data_offsets"] = (
        tree["extra.bias"]["data_offsets"],
        tree["output.bias"]["data_offsets"],
    )


def link(name: str, target: str) -> Callable[[Path], None]:
    def craft(checkpoint: Path) -> None:
        (checkpoint / name).rename(checkpoint / "elsewhere")
        (checkpoint / name).symlink_to(target)

    return craft


def pipe(name: str) -> Callable[[Path], None]:
    def craft(checkpoint: Path) -> None:
        (checkpoint / name).unlink()
        os.mkfifo(checkpoint / name)

    return craft


def huge(checkpoint: Path) -> None:
    with (checkpoint / STATE).open("r+b") as file:
        file.truncate(1 << 40)


def newer(checkpoint: Path) -> None:
    seal(checkpoint, json.dumps(read(checkpoint)), FORMAT + 1)


def renamed(checkpoint: Path) -> None:
    checkpoint.with_name("step-000000002").rename(checkpoint.with_name("step-000000003"))
    shutil.rmtree(checkpoint)


DEEP = "[" * 100_000 + "]" * 100_000
GROUP = "optimizer/groups/0/0"

CRAFTED: list[tuple[str, Callable[[Path], None], str]] = [
    ("step is negative", put("step", -5), "state.json: step: input should be greater than or equal to 0, not -5"),
    ("step is huge", put("step", 1 << 70), "state.json: step: "),
    ("step is a fraction", put("step", 4.0), "state.json: step: input should be a valid integer, not 4.0"),
    ("step is text", put("step", "4"), "state.json: step: "),
    ("step is true", put("step", True), "state.json: step: "),
    ("step is missing", put("step", ...), "state.json: step: field required"),
    ("step is another", put("step", 3), "step-000000004: is a checkpoint of step 3: give it the name step-000000003"),
    ("cursor is negative", put("cursor/window", -1), "state.json: cursor: value error, numbers of 0 to "),
    ("cursor is huge", put("cursor/entry", 1 << 64), "state.json: cursor: "),
    (
        "cursor is not whole",
        put("cursor", {"batch": 8, "epoch": 0, "window": 0}),
        "cursor: value error, it has no entry",
    ),
    ("cursor is a list", put("cursor", [8, 0, 0, 0]), "state.json: cursor: "),
    ("cursor is of another step", put("cursor/batch", 7), "cursor.batch: 7, but step 4 begins with batch 8"),
    ("config is text", put("config", "nnue"), "state.json: config: "),
    ("config has no task", put("config/task", 5), "task: tests.support.toy now, 5 in "),
    ("config has no data", put("config/data", 5), "data.source: synthetic now, chess in "),
    ("fingerprint is a number", put("fingerprint/torch", 5), "state.json: fingerprint.torch: "),
    ("data are numbers", put("data", [5]), "state.json: data.0: "),
    ("data have negative sizes", put("data", [["a", -1]]), "state.json: data.0.1: "),
    ("no files", put("files", {}), "state.json: files: "),
    ("other files", put("files/x", {}), "state.json: files.x"),
    ("a sum is no sum", put(f"files/{WEIGHTS}/header", "x"), f"state.json: files.{WEIGHTS}.header: "),
    ("header of a terabyte", put(f"files/{WEIGHTS}/header_nbytes", 1 << 40), f"files.{WEIGHTS}.header_nbytes: "),
    ("groups are missing", put("optimizer/groups", ...), "state.json: optimizer.groups: field required"),
    ("too few groups", put("optimizer/groups", []), "optimizer state is of 0 buckets"),
    ("lr is text", put(f"{GROUP}/lr", "fast"), "lr is 'fast'"),
    ("lr is negative", put(f"{GROUP}/lr", -1.0), "lr is -1.0"),
    ("lr is not finite", put(f"{GROUP}/lr", float("inf")), "lr is inf"),
    ("lr is no number", put(f"{GROUP}/lr", float("nan")), "lr is nan"),
    ("lr is missing", put(f"{GROUP}/lr", ...), "it has no lr"),
    ("lr is nothing", put(f"{GROUP}/lr", None), "lr is None"),
    ("one beta", put(f"{GROUP}/betas", [0.9]), "betas is (0.9,)"),
    ("betas are text", put(f"{GROUP}/betas", ["a", "b"]), "betas is ('a', 'b')"),
    ("numbers of nobody", put("optimizer/numbers/nobody", {}), "it has numbers of nobody, which is no parameter"),
    ("schedule has no position", put("optimizer/schedulers/0/last_epoch", "x"), "last_epoch of the schedule is 'x'"),
    ("schedule before its beginning", put("optimizer/schedulers/0/last_epoch", -9), "last_epoch of the schedule is -9"),
    ("schedule for nobody", put("optimizer/schedulers/0/base_lrs", []), "base_lrs of the schedule has 0 entries"),
    ("milestones are text", put("optimizer/schedulers/0/milestones", {"x": 1}), "optimizer state does not fit"),
    ("schedules are a number", put("optimizer/schedulers", 5), "state.json: optimizer.schedulers: "),
    ("frozen later", put("members/0/frozen_at", 5), "members.0.frozen_at: 5 is after step 4"),
    ("all frozen", put("members/0/frozen_at", 4), "members: none is trained any more"),
    ("frozen in words", put("members/0/frozen_at", "now"), "state.json: members.0.frozen_at: "),
    ("more members", put("members", [{"frozen_at": None, "unused": 0}] * 2), "members: 2 entries, of a run of 1"),
    ("validations of more", put("validations/members", [{}, {}]), "validations.members: 2 entries, of a run of 1"),
    ("plateaus of nobody", put("optimizer/plateaus", 5), "state.json: optimizer.plateaus: "),
    ("a newer format", newer, f"format {FORMAT + 1}; this version reads "),
    ("deep nesting", text(lambda t: t[:-1] + f', "x": {DEEP}}}'), "state.json: nested too deeply"),
    ("a name twice", text(lambda t: t[:-1] + ', "step": 4}'), "state.json: no JSON: 'step' is given twice"),
    ("an endless number", text(lambda t: t.replace('"step": 4', '"step": ' + "9" * 9999)), "state.json: "),
    ("no object", text(lambda _: "{5"), "state.json: no JSON: "),
    ("state.json is a pipe", pipe(STATE), "state.json: is not a regular file"),
    ("state.json is a link", link(STATE, "elsewhere"), "state.json: is not a regular file"),
    ("state.json is endless", huge, "state.json: has 1099511627776 bytes; at most "),
    ("weights are a pipe", pipe(WEIGHTS), f"{WEIGHTS}: is not a regular file"),
    ("weights are a device", link(WEIGHTS, "/dev/zero"), f"{WEIGHTS}: is not a regular file"),
    ("header is a list", raw_header(b"[]"), f"{WEIGHTS}: header: "),
    ("header is deep", raw_header(DEEP.encode()), f"{WEIGHTS}: nested too deeply"),
    ("a tensor twice", twice, f"{WEIGHTS}: no JSON: 'extra.bias' is given twice"),
    ("unknown dtype", entry("table.bias", dtype="F4"), f"{WEIGHTS}: tensor table.bias: dtype F4; known are F64"),
    ("negative shape", entry("table.bias", shape=[-16]), f"{WEIGHTS}: header: table.bias.shape.0: "),
    ("huge shape", entry("table.bias", shape=[1 << 62, 1 << 62]), f"{WEIGHTS}: tensor table.bias: at bytes "),
    ("offsets overlap", entry("table.bias", data_offsets=[0, 64]), f"{WEIGHTS}: tensor table.bias: at bytes "),
    ("offsets change places", header(swapped), f"{WEIGHTS}: tensor extra.bias: at bytes "),
    ("offsets are negative", entry("table.bias", data_offsets=[-64, 0]), f"{WEIGHTS}: header: table.bias.data_off"),
    ("metadata", header(lambda tree: tree.update(__metadata__={"a": "b"})), f"{WEIGHTS}: header: __metadata__."),
    ("other dtype", entry("table.bias", dtype="I32"), "table.bias: float32 16 in the config's model, int32 16 in"),
    ("other shape", entry("table.bias", shape=[4, 4]), "table.bias: float32 16 in the config's model, float32 4 x 4"),
    (
        "other name",
        header(lambda tree: tree.update({"a/b": tree.pop("table.weight")})),
        "table.weight: float32 1000 x 16 in the config's model, not in the checkpoint",
    ),
    (
        "optimizer of nobody",
        header(lambda tree: [tree.update({f"x{key}": tree.pop(key)}) for key in list(tree)], OPTIMIZER),
        "optimizer.safetensors",
    ),
    (
        "counts are integers",
        header(lambda tree: [tree[key].update(dtype="I32") for key in tree if key.endswith("/step")], OPTIMIZER),
        "/step is int32, not float32",
    ),
    ("another step's folder", renamed, "step-000000003: is a checkpoint of step 2"),
]


@pytest.mark.parametrize(("craft", "complaint"), [row[1:] for row in CRAFTED], ids=[row[0] for row in CRAFTED])
def test_a_crafted_checkpoint_is_refused_in_one_line_and_stays_as_it_is(
    craft: Callable[[Path], None], complaint: str, genuine: Genuine, copied: Path
) -> None:
    craft(copied)
    before = sorted(path.name for path in copied.parent.iterdir())
    with pytest.raises((CheckpointError, ConfigError)) as error:
        resume(genuine, copied)
    assert complaint in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 1000
    assert sorted(path.name for path in copied.parent.iterdir()) == before


def test_the_genuine_one_is_taken(genuine: Genuine, copied: Path) -> None:
    resume(genuine, copied)
    reseal(copied, lambda _: None)
    reseal_header(copied, lambda _: None)
    resume(genuine, copied)
