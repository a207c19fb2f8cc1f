"""Keys of stages: which change with what, and so what is trained again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.files.fingerprint import content_digest
from pool.errors import ConfigError
from pool.stages.key import digest, stage_keys
from pool.stages.recipe import parse_recipe
from tests.support.paths import SAMPLE

Tree = dict[str, Any]
Change = Callable[[Tree], object]
NONE, ALL, FROM_SECOND, THIRD = "", "first second third", "second third", "third"


def keys_of(tree: Tree) -> dict[str, str]:
    return stage_keys(parse_recipe(tree, (), "x.toml").stages)


def at(*path: str | int, to: Any) -> Change:
    def change(tree: Any) -> None:
        *tables, key = path
        for table in tables:
            tree = tree[table] if isinstance(table, int) else tree.setdefault(table, {})
        tree[key] = to

    return change


def file(name: str, write: Callable[[Path], object]) -> Change:
    return lambda tree: write(Path(tree["run"]["dir"]).parent / name)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def rename(tree: Tree) -> None:
    path = Path(tree["data"]["train"][0])
    path.rename(path.with_name("other.binpack"))
    tree["data"]["train"] = [str(path.with_name("other.binpack"))]


def append_file(tree: Tree) -> None:
    tree["data"]["train"].append(str(SAMPLE / "validation.binpack"))


def hold_out(tree: Tree) -> None:
    tree["data"] = {**tree["data"], "validation": [], "validation_share": 0.1}


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        pytest.param(lambda _: None, NONE, id="nothing"),
        pytest.param(at("run", "dir", to="elsewhere"), NONE, id="the folder"),
        pytest.param(rename, NONE, id="a file's name"),
        pytest.param(file("train.binpack", os.utime), NONE, id="a file's time"),
        pytest.param(file("validation.binpack", flip), NONE, id="validations that steer nothing"),
        pytest.param(at("pool", "devices", to=["fake:0"]), NONE, id="devices"),
        pytest.param(at("pool", "threads", to=3), NONE, id="threads"),
        pytest.param(at("data", "threads", to=3), NONE, id="loader's threads"),
        pytest.param(at("train", "checkpoint_every", to=5), NONE, id="checkpoints"),
        pytest.param(at("train", "validation_batches", to=5), NONE, id="batches of a validation"),
        pytest.param(at("train", "steps", to=10.0), NONE, id="a number written otherwise"),
        pytest.param(at("optimizer", "args", "lr", to=0.001), NONE, id="a rate written otherwise"),
        pytest.param(at("train", "batches_per_step", to=2), NONE, id="a default that is written"),
        pytest.param(at("stages", "export", to=False), NONE, id="export"),
        pytest.param(at("stage", 2, "test", to=["true", "{net}"]), NONE, id="a test"),
        pytest.param(at("testing", "history", to=True), NONE, id="testing"),
        pytest.param(at("run", "seed", to=5), ALL, id="seed"),
        pytest.param(at("data", "batch_size", to=512), ALL, id="batch size"),
        pytest.param(at("model", "l1", to=64), ALL, id="model"),
        pytest.param(at("data", "chess", "filters", "skip_in_check", to=True), ALL, id="filters"),
        pytest.param(file("train.binpack", flip), ALL, id="content of a file"),
        pytest.param(append_file, ALL, id="one file more"),
        pytest.param(hold_out, ALL, id="data held out"),
        pytest.param(at("optimizer", "args", "lr", to=2e-3), ALL, id="rate"),
        pytest.param(at("optimizer", "name", to="torch.optim.Adam"), ALL, id="optimizer"),
        pytest.param(at("train", "clip_norm", to=1.0), ALL, id="clipping"),
        pytest.param(at("train", "gradient_dtype", to="bfloat16"), ALL, id="gradients' type"),
        pytest.param(at("train", "batches_per_group", to=2), ALL, id="order of the sum"),
        pytest.param(at("stage", 0, "train", to={"steps": 11}), ALL, id="steps of the first"),
        pytest.param(at("stage", 1, "loss", "lambda_end", to=0.7), FROM_SECOND, id="loss of the second"),
        pytest.param(at("stage", 1, "train", to={"start_weights": "averaged"}), FROM_SECOND, id="averaged start"),
        pytest.param(at("stage", 1, "start_from", to=""), FROM_SECOND, id="new weights in the second"),
        pytest.param(
            at("stage", 1, "train", to={"early_stopping": 2, "validate_every": 5}), FROM_SECOND, id="stopping"
        ),
        pytest.param(at("stage", 2, "train", "steps", to=21), THIRD, id="steps of the third"),
        pytest.param(at("stage", 2, "train", "batches_per_step", to=8), THIRD, id="batch of the third"),
        pytest.param(at("stage", 2, "start_with", to="weights"), THIRD, id="how the third starts"),
        pytest.param(at("stage", 2, "start_from", to="first"), THIRD, id="from which stage the third starts"),
    ],
)
def test_keys_change_with_what_changes_weights_and_with_nothing_else(tree: Tree, change: Change, changed: str) -> None:
    before = keys_of(tree)
    change(tree)
    after = keys_of(tree)
    assert {name for name in before if before[name] != after[name]} == set(changed.split())


def test_validations_that_steer_a_run_are_part_of_its_key(tree: Tree) -> None:
    tree["train"] |= {"early_stopping": 2, "validate_every": 5}
    before = keys_of(tree)
    flip(Path(tree["data"]["validation"][0]))
    assert not set(before.values()) & set(keys_of(tree).values())


def test_a_start_outside_is_known_by_its_content(tree: Tree, tmp_path: Path) -> None:
    net = tmp_path / "a.nnue"
    net.write_bytes(b"one")
    tree["stage"][0]["start_from"] = str(net)
    one = keys_of(tree)
    assert keys_of(tree) == one
    net.write_bytes(b"two")
    assert not set(one.values()) & set(keys_of(tree).values())
    net.unlink()
    with pytest.raises(
        ConfigError,
        match=r"start_from: .*a\.nnue: no stage before it has this name, and as a file or folder: No such file",
    ):
        keys_of(tree)


@given(st.integers(0, 1 << 53))
def test_one_number_has_one_digest(number: int) -> None:
    assert digest({"a": number}) == digest({"a": float(number)})
    assert digest({"a": number}) != digest({"a": number + 0.5}) or number + 0.5 == number


def test_a_large_file_is_known_by_pieces_at_both_ends_and_between(tmp_path: Path) -> None:
    path, size = tmp_path / "large", 40 << 30
    with path.open("wb") as file:
        file.truncate(size)
    digests = {content_digest(path, size)}
    for place in (0, size - 1, (1 << 20) - 1, size - (1 << 20)):
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        digests.add(content_digest(path, size))
    digests.add(content_digest(path, size - 1))
    assert len(digests) == 6
