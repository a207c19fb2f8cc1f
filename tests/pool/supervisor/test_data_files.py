"""Which data files a run has, and what of them a resumed run must find again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader.exit_codes import EXIT_DATA
from loader.files.identity import DataFile, identify
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.state import CHUNK_SUMS, STATE, OptimizerNumbers, SavedState, describe_files, read_state, verify
from pool.checkpoint.store import Checkpoint
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, RunError
from pool.process.start import FeederStart, decode_start
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.supervisor.prepare.data_files import (
    check_unchanged_at_end,
    compare_files,
    describe_cut_files,
    find_data_files,
    load_saved_sums,
)
from pool.supervisor.prepare.run_plan import RunPlan
from tests.support import run_plans
from tests.support.data.binpack_data import chunks, make_files

WORDS = np.arange(1, 11, dtype=np.uint64) + np.uint64(1 << 32)


def config(folder: Path, growing: str = "stop", pattern: str = "*.binpack") -> Config:
    data = {"train": [f"{folder}/{pattern}"], "growing": growing}
    return parse_config({"task": "tests.support.toy", "data": data}, "test")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return make_files(tmp_path / "data")


@pytest.fixture
def checkpoint(tmp_path: Path, files: list[Path]) -> Path:
    known = describe_files(identify(files))
    return store.save_checkpoint(
        tmp_path / "checkpoints",
        Checkpoint(
            step=7,
            cursor=Cursor(14, 0, 2, 3),
            config={},
            fingerprint={},
            data=known,
            weights={"w": torch.zeros(2)},
            optimizer_tensors={},
            optimizer=OptimizerNumbers({}, [], []),
            validation=known[:1],
            chunk_sums={"train": WORDS, "validate": WORDS[:5]},
        ),
    )


def run_on(files: list[Path], checkpoint: Path | None = None, **changes: Any) -> RunPlan:
    known = identify(files)
    return run_plans.run_plan(
        files[0].parent,
        **{
            "config": config(files[0].parent),
            "train_files": known,
            "validation_files": known[:1],
            "checkpoint": checkpoint,
            "answer": run_plans.planned(num_chunks={"train": 10, "validate": 5}),
            **changes,
        },
    )


def append(file: Path) -> None:
    with file.open("ab") as out:
        out.write(chunks(1)[0])


def test_a_file_that_grew_since_the_checkpoint_is_refused_or_read_up_to_its_recorded_size(
    files: list[Path], checkpoint: Path
) -> None:
    saved, sizes = read_state(checkpoint), [file.stat().st_size for file in files]
    append(files[1])
    folder = files[0].parent
    with pytest.raises(
        RunError, match=r"b.binpack: has changed: \d+ bytes now, \d+ when .* was written; .*ignore_new"
    ) as raised:
        compare_files(saved, find_data_files(config(folder), saved).train, checkpoint)
    assert raised.value.exit_code == EXIT_DATA
    found = find_data_files(config(folder, "ignore_new"), saved)
    assert [file.size for file in found.train] == sizes
    compare_files(saved, found.train, checkpoint)
    (line,) = describe_cut_files(run_on(files, train_files=found.train, validation_files=()))
    assert f"{files[1]} is read up to byte {sizes[1]}" in line


def test_files_that_are_new_since_the_checkpoint_are_refused_or_left_out(files: list[Path], checkpoint: Path) -> None:
    saved, folder = read_state(checkpoint), files[0].parent
    (folder / "aa.binpack").write_bytes(chunks(1)[0])
    with pytest.raises(ConfigError, match=r"data.train: a.binpack, aa.binpack, b.binpack now, other data"):
        compare_files(saved, find_data_files(config(folder), saved).train, checkpoint)
    found = find_data_files(config(folder, "ignore_new"), saved)
    assert [file.path for file in found.train] == files
    assert found.notes[0] == "data.train: files newer than the checkpoint are left out: 1"


@pytest.mark.parametrize("growing", ["stop", "ignore_new"])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), r"b.binpack: has changed: \d+ bytes now"),
        (lambda file: file.unlink(), "data.train: a.binpack now, other data"),
        (lambda file: file.rename(file.with_name("c.binpack")), "data.train: a.binpack, c.binpack now, other data"),
    ],
)
def test_what_is_missing_since_the_checkpoint_is_refused(
    change: Callable[[Path], object], error: str, growing: str, files: list[Path], checkpoint: Path
) -> None:
    saved = read_state(checkpoint)
    change(files[1])
    with pytest.raises((ConfigError, RunError), match=error):
        compare_files(saved, find_data_files(config(files[0].parent, growing), saved).train, checkpoint)


def test_what_was_read_before_a_checkpoint_comes_back_with_it(files: list[Path], checkpoint: Path) -> None:
    state = verify(checkpoint)
    found = load_saved_sums(run_on(files), state, checkpoint)
    assert (found["train"] == WORDS).all()
    assert (found["validate"] == WORDS[:5]).all()
    other_validation = run_on(files, validation_files=identify(files[1:]))
    assert load_saved_sums(other_validation, state, checkpoint).keys() == {"train"}
    with pytest.raises(RunError, match=r"a.binpack, .*b.binpack: the data have changed: 11 chunks now, 10 when"):
        load_saved_sums(run_on(files, answer=run_plans.planned(num_chunks={"train": 11})), state, checkpoint)


def test_damage_of_what_was_read_is_found_like_any_of_a_checkpoint(checkpoint: Path) -> None:
    path = checkpoint / CHUNK_SUMS
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{CHUNK_SUMS}: tensor .* is damaged"):
        verify(checkpoint)


def test_a_checkpoint_of_the_format_before_is_read(checkpoint: Path) -> None:
    """Then only names and sizes are compared."""
    path = checkpoint / STATE
    data = json.loads(path.read_text())
    for key in ("format", "sha256", "validation"):
        del data[key]
    del data["files"][CHUNK_SUMS]
    rest = json.dumps(data, indent=1)[2:].encode()
    path.write_bytes(f'{{"format": 3, "sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode() + rest)
    state: SavedState = verify(checkpoint)
    assert state.validation == ()
    assert store.load_checkpoint(checkpoint).step == 7
    assert load_saved_sums(run_on([checkpoint / STATE]), state, checkpoint) == {}


def test_a_run_that_is_done_looks_at_its_files_once_more(files: list[Path]) -> None:
    done = run_on(files)
    check_unchanged_at_end(done)
    append(files[0])
    with pytest.raises(RunError, match=r"a.binpack: has grown: .*; all steps are done") as raised:
        check_unchanged_at_end(done)
    assert raised.value.exit_code == EXIT_DATA


def test_sixty_thousand_files_are_told_to_those_who_read_them(files: list[Path]) -> None:
    """The document goes through memory: no limit of a message applies."""
    many = tuple(DataFile(Path(f"/data/{number}.binpack"), number, 1, number, 7) for number in range(60_000))
    run = run_on(files, train_files=many)
    start = decode_start(run.start_document(Peer(FEEDER)).to_json(), run.run_dir)
    assert isinstance(start, FeederStart)
    assert start.files["train"] == many
    assert len(run.start_document(Peer(WORKER)).to_json()) < 10_000
