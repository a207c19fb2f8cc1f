"""The data as planner and feeder see them: a source's own errors and changed files are one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.plugins.error_text import PluginError
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.schema import BatchSchema
from loader.stream.slots import allocate_slots
from loader.stream.source import Source
from loader.stream.synthetic import SyntheticSource, SyntheticStream
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.feeder.watched_stream import WatchedStream
from pool.planner.data import plan_data
from pool.process.start import FeederStart, PlannerStart
from pool.protocol.identity import FEEDER, PLANNER, Peer
from pool.protocol.messages import Purpose
from pool.shm.memory import Memory
from pool.supervisor.prepare.run_plan import RunPlan
from tests.pool.supervisor.test_data_files import run_on
from tests.support.data.binpack_data import chunks, make_files

HERE = "tests.pool.planner.test_watched_stream"


class OfFiles(SyntheticSource):
    """Synthetic data that pretends to read files; two batches an epoch, nothing compared."""

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> SyntheticStream:  # noqa: ARG002
        return EpochStream(self.schema(config), seed)


class EpochStream(SyntheticStream):
    def seek(self, cursor: Cursor) -> None:
        super().seek(replace(cursor, epoch=0))

    def take(self) -> Any:
        filled = super().take()
        if filled is None:
            return None
        cursor, then = filled.cursor, filled.next_cursor
        return replace(
            filled, cursor=replace(cursor, epoch=cursor.batch // 2), next_cursor=replace(then, epoch=then.batch // 2)
        )


class Clumsy(OfFiles):
    """Writes a batch that its schema does not allow."""

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> SyntheticStream:
        stream = super().open(config, files, seed)
        stream.schema = replace(stream.schema, dense=())
        return stream


class Raising(OfFiles):
    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> SyntheticStream:  # noqa: ARG002
        raise KeyError("no such key")


class WithoutOpen(Source):
    schema = SyntheticSource.schema
    origin = SyntheticSource.origin


class FakeMemory:
    """What WatchedStream asks of `pool.shm.memory.Memory`."""

    def __init__(self, schema: BatchSchema, words: int) -> None:
        self.rings = {"train": allocate_slots(schema, 4)}
        self._words = np.zeros(words, np.uint64)

    def chunk_checksums(self) -> dict[str, np.ndarray[Any, Any]]:
        return {"train": self._words}


def run_of(files: list[Path], source: str, growing: str = "stop") -> RunPlan:
    own = {} if source == "chess" else {HERE.rpartition(".")[2]: {"num_features": 50, "max_active": 4}}
    data = {"source": source, **own, "batch_size": 8, "window_chunks": 1, "growing": growing}
    return run_on(files, config=parse_config({"task": "tests.support.toy", "data": data}, "test"), validation_files=())


def as_planner(run: RunPlan) -> PlannerStart:
    return run.planner_start(Peer(PLANNER))


def as_feeder(run: RunPlan) -> FeederStart:
    start = run.start_document(Peer(FEEDER))
    assert isinstance(start, FeederStart)
    return start


def watched(run: RunPlan, words: int = 10) -> WatchedStream:
    purpose: Purpose = "train"
    return WatchedStream(as_feeder(run), cast(Memory, FakeMemory(plan_data(as_planner(run)).schema, words)), purpose)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return make_files(tmp_path)


def take_for_ever(stream: WatchedStream) -> None:
    while True:
        if (filled := stream.take()) is not None:
            stream.give(filled.slot)


def append(file: Path, length: int = 1 << 20) -> None:
    with file.open("ab") as out:
        out.write(chunks(1)[0][:length])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("WithoutOpen", r"WithoutOpen.open is missing: a source must have open\(config, files, seed\)"),
        ("Raising", r"KeyError: 'no such key' \(.*test_watched_stream.py:\d+, in open\)"),
    ],
)
def test_the_planner_names_what_is_wrong_with_a_source(source: str, said: str, files: list[Path]) -> None:
    with pytest.raises(ConfigError, match=f"data.source: .*{source}.*{said}") as raised:
        plan_data(as_planner(run_of(files, f"{HERE}:{source}")))
    assert raised.value.exit_code == 2


def test_the_planner_counts_chunks_and_leaves_out_what_is_half_written(files: list[Path]) -> None:
    sizes = [file.stat().st_size for file in files]
    append(files[0], 20)
    found = plan_data(as_planner(run_of(files, "chess", "ignore_new")))
    assert [file.size for file in found.files["train"]] == sizes
    assert found.num_chunks == {"train": 10}
    with_damage = plan_data(as_planner(run_of(files, "chess")))
    assert with_damage.num_chunks == {"train": 11}


def test_a_batch_that_does_not_fit_ends_the_run_with_field_and_source(files: list[Path]) -> None:
    stream = watched(run_of(files, f"{HERE}:Clumsy"))
    with pytest.raises(PluginError, match=f"data.source: {HERE}:Clumsy: ValueError: dense fields: target given"):
        stream.give(0)


@pytest.mark.parametrize("source", ["chess", f"{HERE}:OfFiles"])
def test_a_changed_file_is_seen_when_the_feeder_starts_and_at_each_seek(source: str, files: list[Path]) -> None:
    run = run_of(files, source)
    stream = watched(run)
    stream.seek(Cursor())
    append(files[1])
    with pytest.raises(DataChangedError, match=r"b.binpack: has grown"):
        stream.seek(Cursor())
    with pytest.raises(DataChangedError, match=r"b.binpack: has grown"):
        watched(run)


def test_a_cut_file_is_said_to_be_cut_and_not_damaged(files: list[Path]) -> None:
    run = run_of(files, "chess")
    files[0].write_bytes(files[0].read_bytes()[:50])
    with pytest.raises(DataChangedError, match=r"a.binpack: has been cut: 50 bytes now"):
        WatchedStream(
            as_feeder(run),
            cast(Memory, FakeMemory(plan_data(as_planner(run_of(files[1:], "chess"))).schema, 10)),
            "train",
        )


def test_a_source_without_sums_has_its_files_looked_at_once_an_epoch(files: list[Path]) -> None:
    stream = watched(run_of(files, f"{HERE}:OfFiles"))
    for slot in range(4):
        stream.give(slot)
    append(files[0])
    assert stream.take() is not None
    with pytest.raises(DataChangedError, match=r"a.binpack: has grown"):
        stream.take()


def test_another_number_of_chunks_than_at_the_start_is_a_change(files: list[Path]) -> None:
    with pytest.raises(DataChangedError, match="10 chunks now, 9 when the run began"):
        watched(run_of(files, "chess"), words=9)


def test_damage_is_still_damage(files: list[Path]) -> None:
    data = bytearray(files[0].read_bytes())
    data[8:16] = bytes(8)
    files[0].write_bytes(data)
    stream = watched(run_of(files, "chess"))
    for slot in range(4):
        stream.give(slot)
    with pytest.raises(DataError, match=r"a.binpack: offset 8: ") as raised:
        take_for_ever(stream)
    assert not isinstance(raised.value, DataChangedError)
