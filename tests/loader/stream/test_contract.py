"""What every stream does, whatever it reads: one contract for all formats, packings and sources (I1).

What a format alone has is tested beside its name: tests/loader/chess/formats, tests/loader/rows/formats.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loader.chess.positions.entry import Entry
from loader.formats.registry import bundled_formats, load_format, resolve_format
from loader.rows import blocks
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.rows import many_rows
from tests.loader.rows.formats import test_csv, test_npz, test_parquet
from tests.loader.stream.batch_contents import digest
from tests.loader.stream.test_stream import run
from tests.support.data import rows_blocks, text_format
from tests.support.positions import FORMATS, SUFFIXES, encode, sample

SEED = 3
POSITIONS = 3000
SVMLIGHT = 40_000


@dataclass(frozen=True)
class Subject:
    """What a stream reads: some batches of it are an epoch, and a few more."""

    config: DataConfig
    paths: Sequence[Path]
    samples: int
    format: str = ""  # of the files, as their content says; empty for none

    def open(self, seed: int = SEED, **changes: Any) -> Any:
        return open_stream(self.config.model_copy(update=changes), self.paths, seed)

    @property
    def batches(self) -> int:
        return self.samples // self.config.batch_size


def chess(name: str, *, packed: bool = False, copies: int = 12) -> Callable[[Path], Subject]:
    def make(folder: Path) -> Subject:
        data = encode(name, sample(POSITIONS))
        ending = SUFFIXES.get(name, ".binpack")
        paths = [folder / f"few{ending}", folder / f"many{ending}{'.gz' if packed else ''}"]
        paths[0].write_bytes(data)
        paths[1].write_bytes(gzip.compress(data * copies, 1) if packed else data * copies)
        keys = {"batch_size": 500, "window_chunks": 2, "chess": {"features": "chess768", "filters": KEEP_ALL}}
        return Subject(data_config(**keys), paths, (1 + copies) * POSITIONS, name)

    return make


KEEP_ALL = {"skip_no_score": False}


def only_read(
    name: str, endings: tuple[str, str], header: str, line: Callable[[Entry], str]
) -> Callable[[Path], Subject]:
    """A format that is not written."""

    def make(folder: Path) -> Subject:
        data = (header + "".join(map(line, sample(POSITIONS)))).encode()
        paths = [folder / f"few{endings[0]}", folder / f"many{endings[1]}"]
        paths[0].write_bytes(data)
        paths[1].write_bytes(gzip.compress(data * 6, 1) if endings[1].endswith(".gz") else data * 6)
        keys = {"batch_size": 500, "window_chunks": 2, "chess": {"features": "chess768", "filters": KEEP_ALL}}
        return Subject(data_config(**keys), paths, 7 * POSITIONS, name)

    return make


def row_of(entry: Entry) -> str:
    return f"{entry.fen},{entry.score},{'1-0' if entry.result else '1/2-1/2'}\n"


def object_of(entry: Entry) -> str:
    pv = {"cp": entry.score, "line": f"{entry.move} e2e4"}
    return json.dumps({"fen": entry.fen, "evals": [{"pvs": [pv], "knodes": 1, "depth": 9}]}) + "\n"


def users_positions(folder: Path) -> Subject:
    path = folder / "games.dat"
    path.write_text("".join(map(text_format.write_line, sample(POSITIONS))), encoding="utf-8")
    keys = {"batch_size": 100, "window_chunks": 3, "format": text_format.__name__}
    return Subject(data_config(**keys, chess={"features": "chess768", "filters": KEEP_ALL}), [path], POSITIONS)


def csv(folder: Path) -> Subject:
    path = folder / "clicks.csv"
    path.write_text(test_csv.table(400), encoding="utf-8")
    return Subject(test_csv.config(), [path], 400, "csv")


def parquet(folder: Path) -> Subject:
    path = test_parquet.write(folder / "clicks.parquet")
    return Subject(test_parquet.config(), [path], test_parquet.COUNT, "parquet")


def npz(folder: Path) -> Subject:
    parts = [slice(first, first + 70) for first in range(0, rows_blocks.ROWS, 70)]
    paths = [test_npz.save(folder / f"{part.start:03}.npz", part) for part in parts]
    return Subject(test_npz.config(), paths, rows_blocks.ROWS, "npz")


def svmlight(*, packed: bool) -> Callable[[Path], Subject]:
    def make(folder: Path) -> Subject:
        path = folder / f"rows.svm{'.gz' if packed else ''}"
        text = many_rows.make(SVMLIGHT).text
        path.write_bytes(gzip.compress(text, 1) if packed else text)
        keys = {"source": "rows", "batch_size": 1000, "window_chunks": 2, "format": "svmlight"}
        return Subject(data_config(**keys, rows={"num_features": many_rows.FEATURES}), [path], SVMLIGHT)

    return make


def users_blocks(name: str) -> Callable[[Path], Subject]:
    return lambda _: Subject(test_npz.of_code(name), [], rows_blocks.ROWS)


def synthetic(_: Path) -> Subject:
    return Subject(data_config(source="synthetic", batch_size=64), [], 64 * 12)


SUBJECTS: Mapping[str, Callable[[Path], Subject]] = {
    "binpack": chess("binpack", copies=3),
    "binpack, packed": chess("binpack", packed=True, copies=40),
    **{name: chess(name) for name in FORMATS},
    **{f"{name}, packed": chess(name, packed=True) for name in FORMATS},
    "fen_csv": only_read("fen_csv", (".csv", ".tsv"), "fen,score,result\n", row_of),
    "lichess_evals": only_read("lichess_evals", (".jsonl", ".jsonl.gz"), "", object_of),
    "positions of a user's format": users_positions,
    "csv": csv,
    "parquet": parquet,
    "npz": npz,
    "svmlight": svmlight(packed=False),
    "svmlight, packed": svmlight(packed=True),
    **{f"a user's {name}": users_blocks(name) for name in ("matrix", "Parts", "generator")},
    "synthetic": synthetic,
}


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return SUBJECTS[request.param](tmp_path_factory.mktemp("subject"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ROWS", 40)  # of a user's code, so that there are several


def digests(stream: Any, count: int) -> list[str]:
    with closing(stream):
        return [digest(batch) for batch in read_batches(stream, count)]


def test_every_format_is_a_subject() -> None:
    assert {name.partition(",")[0] for name in SUBJECTS} >= set(bundled_formats())


def test_a_file_is_known_by_its_content_or_name(subject: Subject) -> None:
    if not subject.format:
        return
    assert subject.config.source == load_format(subject.format).FAMILY
    for path in subject.paths:
        assert resolve_format(path, setting="data.format") == subject.format


@pytest.mark.parametrize("shuffle", [True, False])
def test_threads_and_seeks_change_nothing(subject: Subject, shuffle: bool) -> None:
    """Into the second epoch, from cursors drawn at random."""
    count = min(subject.batches + 3, 60)
    expected: list[tuple[Any, str]] = []
    for threads in (1, 3):
        with closing(subject.open(threads=threads, shuffle=shuffle)) as stream:
            slots = allocate_slots(stream.schema, 3)
            stream.attach(slots)
            batches = [(filled.cursor, hashed) for filled, hashed in run(stream, slots, count)]
            assert batches == (expected or batches)
            expected = batches
            for start in sorted(random.Random(threads).sample(range(count), 3), reverse=True):
                stream.seek(expected[start][0])
                again = [(filled.cursor, hashed) for filled, hashed in run(stream, slots, min(4, count - start))]
                assert again == expected[start : start + 4]


def test_another_seed_is_another_order(subject: Subject) -> None:
    count = min(subject.batches, 20)
    assert digests(subject.open(), count) != digests(subject.open(seed=SEED + 1), count)


def test_an_epoch_has_each_sample_once(subject: Subject) -> None:
    """Shuffled they are those of the files' order."""
    count = subject.batches
    sides = []
    for shuffle in (True, False):
        values: list[float] = []
        with closing(subject.open(shuffle=shuffle)) as stream:
            column = "score" if subject.config.source == "chess" else stream.schema.dense[0].name
            for batch in read_batches(stream, count):
                values += batch.dense[column].tolist()
        sides.append(sorted(values))
    assert len(sides[0]) == count * subject.config.batch_size
    if subject.config.source != "synthetic" and subject.samples == count * subject.config.batch_size:
        assert sides[0] == sides[1]
    expected = Data.from_paths(subject.config, subject.paths, SEED).samples_per_epoch()
    assert expected is None or expected == pytest.approx(subject.samples, rel=0.1)
