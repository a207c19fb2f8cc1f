"""Files in given shares: a function of files, settings and seed (I1), whatever reads them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.files.identity import DataFile, identify
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor, Filled
from loader.stream.mixture_entries import parse_train_files
from loader.stream.mixture_files import apply_entry_settings, find_entry_files
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import KEEP_ALL, run
from tests.support.binpack_file import BinpackFile

CONFIG = data_config(batch_size=64, window_chunks=6, chess={"features": "chess768", "filters": KEEP_ALL})
SEED = 5


def mixed(*entries: tuple[Any, float]) -> tuple[DataFile, ...]:
    given = [{"files": [str(path) for path in np.atleast_1d(files)], "share": share} for files, share in entries]
    paths, components = find_entry_files(parse_train_files(given), "data.train")
    return apply_entry_settings(identify(paths), components, "data.train")


@pytest.fixture(scope="module")
def formats(game_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A binpack file of 12 chunks; the 1024 entries of another as bulletformat and as compressed text, one chunk."""
    from loader.chess.positions.format import target_from_name
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.convert import convert

    folder = tmp_path_factory.mktemp("formats")
    made = [folder / name for name in ("b.bf", "c.txt.gz")]
    for path in made:
        convert(open_sources([game_files[1]]), target_from_name(path), path)
    return [game_files[0], *made]


def batches(config: DataConfig, files: Sequence[DataFile], count: int) -> list[tuple[Filled, str]]:
    with closing(open_stream(config, files, SEED)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        return list(run(stream, slots, count))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_mixture_is_the_same_for_any_threads_and_from_any_cursor(shuffle: bool, formats: list[Path]) -> None:
    files = mixed((formats[0], 3), (formats[1], 1), (formats[2], 0.5))
    config = CONFIG.model_copy(update={"shuffle": shuffle, "threads": 1})
    expected = batches(config, files, 150)
    assert expected[-1][0].cursor.epoch >= 1
    with closing(open_stream(config.model_copy(update={"threads": 4}), files, SEED)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        assert [(f.cursor, h) for f, h in run(stream, slots, 150)] == [(f.cursor, h) for f, h in expected]
        pick = random.Random(1)
        for start in pick.sample(range(140), 12):
            stream.seek(expected[start][0].cursor)
            again = list(run(stream, slots, 4))
            assert [h for _, h in again] == [h for _, h in expected[start : start + 4]]


def windows(config: DataConfig, files: Sequence[DataFile], epochs: int) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """The epoch and the chunks (file, number) of each window."""
    for epoch in range(epochs):
        for window in range(1000):
            chunks = Data.from_paths(config, files, SEED).origin(Cursor(0, epoch, window, 0))["chunks"]
            if not chunks:
                break
            yield epoch, [(chunk["file"], chunk["chunk"]) for chunk in chunks]


def test_each_window_has_the_shares_and_the_longest_component_comes_once_an_epoch(game_files: list[Path]) -> None:
    files = mixed((game_files[0], 3), (game_files[1], 1), (game_files[2], 2))  # 12, 8 and 4 chunks of 128 entries
    names = [str(path) for path in game_files]
    config = CONFIG.model_copy(update={"window_chunks": 12})
    seen: dict[int, Counter[tuple[str, int]]] = {}
    for epoch, chunks in windows(config, files, 4):
        seen.setdefault(epoch, Counter()).update(chunks)
        of_file = Counter(name for name, _ in chunks)
        assert [of_file[name] for name in names] == [6, 2, 4]
    for turns in seen.values():
        assert Counter(name for name, _ in turns.elements()) == {names[0]: 24, names[1]: 8, names[2]: 16}
        assert {count for (name, _), count in turns.items() if name == names[1]} == {1}
        assert {count for (name, _), count in turns.items() if name == names[0]} == {2}
    assert seen[0] == seen[1]


def test_a_component_goes_on_in_the_next_epoch_where_it_stopped(game_files: list[Path]) -> None:
    """Of 4 chunks an epoch reads 6: each of them comes once before one comes a second time."""
    files = mixed((game_files[0], 2), (game_files[2], 1))
    turns = [chunk for _, chunks in windows(CONFIG, files, 4) for chunk in chunks if chunk[0] == str(game_files[2])]
    assert len(turns) == 24
    passes = [turns[begin : begin + 4] for begin in range(0, 24, 4)]
    assert all(len(set(each)) == 4 for each in passes)
    assert len({tuple(each) for each in passes}) > 1  # each in an order of its own


def test_shares_count_samples_not_chunks_after_the_filters(formats: list[Path]) -> None:
    """Chunks of 128 positions against one of 1024; the filters leave out others of each file."""
    files = mixed((formats[0], 3), (formats[1], 2))
    for filters in (KEEP_ALL, KEEP_ALL.model_copy(update={"skip_in_check": True, "random_skip": 1.0})):
        config = CONFIG.model_copy(update={"chess": CONFIG.settings.model_copy(update={"filters": filters})})
        found = Data.from_paths(config, files, SEED).portions()
        assert found[0].samples / 3 == pytest.approx(found[1].samples / 2, rel=0.1)
        assert max(found, key=lambda portion: portion.samples / portion.passes).passes == pytest.approx(1, rel=0.1)
        assert Data.from_paths(config, files, SEED).samples_per_epoch() == sum(portion.samples for portion in found)


def test_repeated_chunks_draw_other_samples_each_time(game_files: list[Path]) -> None:
    """Random filters go by the pass: a chunk that comes twice in an epoch is not thinned out in the same way."""
    filters = KEEP_ALL.model_copy(update={"random_skip": 1.0})
    config = CONFIG.model_copy(
        update={"chess": CONFIG.settings.model_copy(update={"filters": filters}), "shuffle": False, "batch_size": 1}
    )
    files = mixed((game_files[2], 1))
    with closing(open_stream(config, files, SEED)) as stream:
        slots = allocate_slots(stream.schema, 1)
        stream.attach(slots)
        found: dict[int, list[bytes]] = {}
        for filled, _ in run(stream, slots, 500):
            batch = SparseBatch.view(stream.schema, slots[filled.slot])
            found.setdefault(filled.cursor.epoch, []).append(batch.dense["score"].tobytes())
    assert found[0] != found[1]


def test_names_without_shares_mean_what_they_meant(game_files: list[Path]) -> None:
    plain, entries = find_entry_files(parse_train_files([str(path) for path in game_files]), "data.train")
    assert plain == game_files
    assert apply_entry_settings(identify(plain), entries, "") == identify(game_files)
    assert [h for _, h in batches(CONFIG, apply_entry_settings(identify(plain), entries, ""), 30)] == [
        h for _, h in batches(CONFIG, identify(game_files), 30)
    ]


def test_a_validation_share_is_taken_from_every_entry_or_refused(game_files: list[Path]) -> None:
    files = mixed((game_files[0], 1), (game_files[1], 1))
    config = CONFIG.model_copy(update={"validation_share": 0.25})
    trained = {chunk for _, chunks in windows(config, files, 2) for chunk in chunks}
    assert len(trained) == 15
    alone = mixed((game_files[0], 1), (one_chunk(game_files[0]), 1))
    half = config.model_copy(update={"validation_share": 0.5})
    with pytest.raises(ValueError, match=r"0\.5 takes all chunks of entry 2 of data\.train: lower it, or name files"):
        open_each(half, alone, seeds=20)


def open_each(config: DataConfig, files: Sequence[DataFile], seeds: int) -> None:
    for seed in range(seeds):
        open_stream(config, files, seed).close()


def one_chunk(path: Path) -> Path:
    file = BinpackFile(path)
    small = path.with_name("small.binpack")
    small.write_bytes(path.read_bytes()[: file.chunk(1)[0]])
    return small


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"files": "x", "share": 0}], "entry 1: share: input should be greater than 0, not 0"),
        ([{"files": "x", "share": -1}], "entry 1: share: input should be greater than 0, not -1"),
        ([{"files": "x", "share": 1e7}], "entry 1: share: input should be less than or equal to 1000000, not 1"),
        ([{"files": "x", "share": True}], "entry 1: share: input should be a valid number, not True"),
        ([{"files": "x", "share": "3"}], "entry 1: share: input should be a valid number, not '3'"),
        (
            [{"files": "x", "share": 1}, {"files": "y", "shares": 3}],
            "entry 2: unknown key shares; allowed here: files, ",
        ),
        ([{"files": "x"}, {"files": "y", "share": 1}], "entry 1: share is missing, and other entries have one"),
        ([{"share": 1}], "entry 1: files is missing; an entry has files, share, score_scale"),
        ([{"files": [], "share": 1}], "entry 1: files: "),
        ([{"files": 7, "share": 1}], "entry 1: files: input should be a valid tuple, not 7"),
        ([{"files": "x", "share": 1}, "y"], "'y' has no share, and other entries have: write {files = ..., share = "),
        ([{"files": "x", "share": 1}, 7], "entry 2: must be a table of files, share, score_scale, score_unit, not 7"),
    ],
)
def test_what_is_no_entry_is_refused_in_one_line(given: list[Any], said: str) -> None:
    from pool.config.load import parse_config
    from pool.errors import ConfigError

    with pytest.raises(ConfigError) as refused:
        parse_config({"task": "tests.support.toy", "data": {"train": given}}, "here")
    assert str(refused.value).startswith(f"here: data.train: {said}"), refused.value
    assert "\n" not in str(refused.value)


def test_files_that_can_not_be_mixed_are_named(game_files: list[Path], tmp_path: Path) -> None:
    link = tmp_path / "link.binpack"
    link.symlink_to(game_files[0])
    for entries, said in (
        ([(game_files[0], 1), (game_files[0], 2)], "is in entry 1 and entry 2: a file has one share"),
        ([(game_files[0], 1), (link, 2)], f"is in entry 1 and entry 2: a file has one share: it is {game_files[0]}"),
        ([([game_files[0], game_files[0]], 1)], "is in entry 1 twice: a file has one share"),
        ([(game_files[0], 1), (tmp_path / "no*.viri", 2)], "data.train: entry 2: files: no file matches"),
    ):
        with pytest.raises(ValueError, match=r"^data\.train") as refused:
            mixed(*entries)
        assert said in str(refused.value)
    apart = mixed((game_files[0], 1e-6), (game_files[1], 1e6))
    with pytest.raises(ValueError, match=r"so far apart that an epoch would have over 2\^31 chunks"):
        open_stream(CONFIG, apart, SEED)
    nothing = CONFIG.settings.model_copy(update={"filters": KEEP_ALL.model_copy(update={"skip_ply_up_to": 60000})})
    with pytest.raises(ValueError, match="entry 1: the 8 chunks that were looked at have no sample that passes"):
        open_stream(CONFIG.model_copy(update={"chess": nothing}), mixed((game_files[0], 1)), SEED)


def test_rows_mix_as_positions_do(tmp_path: Path) -> None:
    for name, label, rows in (("a.svm", 1, 3000), ("b.svm", 0, 500)):
        (tmp_path / name).write_text("".join(f"{label} {1 + row % 50}:1\n" for row in range(rows)))
    config = data_config(source="rows", batch_size=100, window_chunks=2, rows={"num_features": 64})
    files = mixed((tmp_path / "a.svm", 3), (tmp_path / "b.svm", 1))
    with closing(open_stream(config, files, SEED)) as stream:
        slots = allocate_slots(stream.schema, 2)
        stream.attach(slots)
        labels = []
        for filled, _ in run(stream, slots, 80):
            labels.append(SparseBatch.view(stream.schema, slots[filled.slot]).dense["label"].copy())
    assert np.mean(labels) == pytest.approx(3000 / 4000, abs=0.03)
