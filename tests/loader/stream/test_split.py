"""One set of files for training and validation: no sample on both sides, none lost, the same whatever reads it."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.chess.source import ChessSource
from loader.errors import DataError
from loader.files.identity import identify
from loader.rows.readers import open_readers
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor, Stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import CHUNKS, ENTRIES, KEEP_ALL, run, wait

ROWS = 12_000
MATRIX = "tests.support.data.rows_blocks:matrix"


def rows_config(share: float = 0.1, **keys: object) -> DataConfig:
    settings = {"source": "rows", "batch_size": 1, "window_chunks": 3, "validation_share": share}
    return data_config(**{**settings, "rows": {"num_features": 5}, **keys})


def chess_config(share: float) -> DataConfig:
    return data_config(batch_size=1, window_chunks=5, validation_share=share, chess={"filters": KEEP_ALL})


def one_pass(stream: Stream, of: Callable[[SparseBatch], Any]) -> Counter[Any]:
    """Of batches of one sample."""
    found: Counter[Any] = Counter()
    with closing(stream):
        slots = allocate_slots(stream.schema, 8)
        stream.attach(slots)
        for slot in range(8):
            stream.give(slot)
        while (filled := wait(stream)).cursor.epoch == 0:
            found[of(SparseBatch.view(stream.schema, slots[filled.slot]))] += 1
            stream.give(filled.slot)
    return found


def label(batch: SparseBatch) -> int:
    return int(batch.dense["label"][0])


def position(batch: SparseBatch) -> object:
    return batch.sparse["features"].features.tobytes(), *(int(batch.dense[name][0]) for name in ("score", "ply"))


def sides(
    config: DataConfig, files: Sequence[Path], of: Callable[[SparseBatch], Any] = label, seed: int = 3
) -> tuple[Counter[Any], Counter[Any]]:
    train, held_out = (Data.from_paths(config, files, seed, validation=side) for side in (False, True))
    return one_pass(train.open(), of), one_pass(held_out.open(), of)


def svmlight(path: Path, rows: int = ROWS, padding: int = 0) -> Path:
    """Row i has the label i."""
    lines = "".join(f"{row} {row % 5}:1 #{'x' * padding}\n" for row in range(rows)).encode()
    path.write_bytes(gzip.compress(lines, 1) if path.suffix == ".gz" else lines)
    return path


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz"])
def test_a_small_file_is_split_by_blocks_of_rows(name: str, tmp_path: Path) -> None:
    path = svmlight(tmp_path / name)
    train, held = sides(rows_config(), [path])
    assert train + held == Counter(range(ROWS))
    assert not train & held
    assert len(held) == pytest.approx(ROWS / 10, abs=16)
    # Blocks of 16, one of each ten.
    assert sorted({row // 160 for row in held}) == list(range(ROWS // 160))
    assert all(Counter(row // 16 for row in held)[row // 16] == 16 for row in held)


def test_a_large_file_is_split_by_chunks(tmp_path: Path) -> None:
    path = svmlight(tmp_path / "a.svm", 20_000, 1_500)  # 30 MB
    config = rows_config(0.3)
    (reader,) = open_readers(config, identify([path]))
    labels = [(chunk, rows.dense["label"]) for chunk in range(reader.num_chunks) for rows in reader.read(chunk)]
    chunks = {int(row): chunk for chunk, found in labels for row in found}
    train, held = sides(config, [path])
    assert train + held == Counter(range(20_000))
    of_train, of_held = ({chunks[row] for row in side} for side in (train, held))
    assert not of_train & of_held
    assert len(of_held) == pytest.approx(0.3 * len(of_train | of_held), abs=1)


def test_games_are_split_by_chunks_so_that_none_is_on_both_sides(game_files: list[Path]) -> None:
    train, held = sides(chess_config(0.25), game_files, position)
    whole = one_pass(open_stream(chess_config(0.0), game_files, 3), position)
    assert train + held == whole
    assert whole.total() == ENTRIES
    assert held.total() == pytest.approx(ENTRIES / 4, rel=0.5)


def test_the_sides_depend_on_files_seed_and_share_alone(tmp_path: Path) -> None:
    path = svmlight(tmp_path / "a.svm")
    expected = sides(rows_config(), [path])
    for keys in (
        {"threads": 4},
        {"shuffle": False},
        {"window_chunks": 1},
        {"rows": {"num_features": 9, "label": "real"}},
    ):
        assert sides(rows_config(**keys), [path]) == expected
    assert sides(rows_config(), [path], seed=4)[1] != expected[1]
    assert len(sides(rows_config(0.5), [path])[1]) == ROWS / 2
    train, held_out = (Data.from_paths(rows_config(), [path], 3, validation=side) for side in (False, True))
    assert train.samples_per_epoch() == pytest.approx(sum(expected[0].values()), rel=0.01)
    assert held_out.samples_per_epoch() == pytest.approx(len(expected[1]), rel=0.02)


def test_each_side_is_a_stream_as_any_other(tmp_path: Path) -> None:
    path = svmlight(tmp_path / "a.svm", 3000)
    for validation in (False, True):
        orders = set()
        for threads in (1, 3):
            config = rows_config(batch_size=40, threads=threads)
            with closing(Data.from_paths(config, [path], 3, validation=validation).open()) as stream:
                slots = allocate_slots(stream.schema, 4)
                stream.attach(slots)
                batches = [(filled.cursor, hashed) for filled, hashed in run(stream, slots, 20)]
                stream.seek(batches[9][0])
                assert [(filled.cursor, hashed) for filled, hashed in run(stream, slots, 11)] == batches[9:]
                orders.add(tuple(hashed for _, hashed in batches))
        assert len(orders) == 1


def test_without_a_share_nothing_is_left_out(tmp_path: Path) -> None:
    path = svmlight(tmp_path / "a.svm", 100)
    assert one_pass(open_stream(rows_config(0.0), [path], 3), label) == Counter(range(100))
    assert one_pass(Data.from_paths(rows_config(0.0), [path], 3, validation=True).open(), label) == Counter(range(100))


def test_rows_of_a_users_code_are_split_too() -> None:
    rows = {"num_features": 60, "blocks": "tests.support.data.rows_blocks:with_weights", "weight": True}
    config = rows_config(0.2, rows=rows)
    train, held = sides(config, [], lambda batch: int(batch.dense["weight"][0]))
    assert train + held == Counter(range(300))
    assert len(held) == pytest.approx(60, abs=16)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            rows_config(rows={"synthetic": {"num_rows": 50}}),
            "data.validation_share: validations have made-up rows of their own; leave it out, or name data.train",
        ),
        (
            rows_config(rows={"blocks": MATRIX, "validation_blocks": MATRIX}),
            "data.validation_share: data.rows.validation_blocks is set, too; leave one of them out",
        ),
        (
            data_config(source="synthetic", validation_share=0.1),
            "data.validation_share: 0.1, but the source synthetic can't split its data (it has no method "
            "open_validation_share); name files in data.validation",
        ),
    ],
)  # fmt: skip
def test_what_can_not_be_split_is_refused(config: DataConfig, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        Data.from_paths(config, [], 3, validation=True).open()
    assert str(caught.value) == said


def test_a_share_of_no_chunk_is_refused(game_files: list[Path]) -> None:
    with pytest.raises(ValueError, match=rf"data\.validation_share: 0\.01 of {CHUNKS} chunks is less than one: "):
        open_stream(chess_config(0.01), game_files, 3)


def test_too_few_rows_for_a_share_are_told(tmp_path: Path) -> None:
    path = svmlight(tmp_path / "a.svm", 12)
    with pytest.raises(DataError, match=r"a whole epoch has no entry.*data\.validation_share takes a part"):
        list(read_batches(Data.from_paths(rows_config(0.02), [path], 3, validation=True).open(), 1))


def test_the_origin_of_a_batch_names_chunks_of_its_side(game_files: list[Path]) -> None:
    config = chess_config(0.25)
    there = [
        (each["file"], each["chunk"])
        for window in range(4)
        for each in ChessSource().origin(config, identify(game_files), 3, Cursor(window=window))["chunks"]
    ]
    assert len(there) == len(set(there)) == CHUNKS - 6
