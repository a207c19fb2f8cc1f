"""Formats are found by name and by content; one from outside the tree serves a run as those in it do."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from loader.chess.filters import FilterConfig
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.chess.readers import open_readers
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile, identify
from loader.formats.format import Format
from loader.formats.registry import bundled_formats, load_format, resolve_format
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import KEEP_ALL, Sample, samples_of
from tests.support.data import text_format
from tests.support.paths import VALIDATION

TEXT = "tests.support.data.text_format"
CONFIG = data_config(batch_size=100, window_chunks=3, chess={"features": "chess768", "filters": KEEP_ALL})
SEED = 5


@pytest.fixture
def text_files(game_files: list[Path], tmp_path: Path) -> list[Path]:
    """The games of the binpack files as text."""
    made = []
    for number, file in enumerate(game_files):
        made.append(tmp_path / f"games-{number}.txt")
        made[-1].write_text("".join(map(text_format.write_line, entries(file))))
    return made


def batches(config: DataConfig, files: list[Path], count: int) -> list[tuple[Sample, ...]]:
    with open_stream(config, files, SEED) as stream:  # type: ignore[attr-defined]
        return [tuple(samples_of(batch)) for batch in read_batches(stream, count)]


def test_every_folder_beside_the_registry_is_a_format() -> None:
    assert "binpack" in bundled_formats()
    for name in bundled_formats():
        assert load_format(name).FAMILY


def test_a_format_is_known_by_content_before_name(game_files: list[Path], tmp_path: Path) -> None:
    renamed = tmp_path / "games.dat"
    renamed.write_bytes(game_files[0].read_bytes())
    assert resolve_format(renamed, setting="data.format") == "binpack"
    named = tmp_path / "empty.binpack"
    named.touch()
    assert resolve_format(named, setting="data.format") == "binpack"


@pytest.mark.parametrize("setting", ["--format", "data.format"])
def test_what_names_the_format_of_an_unclear_file_is_said(setting: str, game_files: list[Path], tmp_path: Path) -> None:
    other, packed = tmp_path / "other.dat", tmp_path / "other.dat.gz"
    other.write_bytes(b"other")
    with pytest.raises(DataError, match=rf"does not begin as any of the formats .*; {setting} says which it is"):
        resolve_format(other, setting=setting)
    assert resolve_format(other, setting=setting, name="svmlight") == "svmlight"
    assert resolve_format(other, setting=setting, is_strict=False) == "binpack"
    assert resolve_format(other, setting=setting, family="rows", is_strict=False) == "svmlight"
    packed.write_bytes(gzip.compress(b"other", mtime=0))
    with pytest.raises(DataError, match=rf"is compressed, .*; {setting} says which it is"):
        resolve_format(packed, setting=setting)
    with pytest.raises(DataError, match="is in binpack, which holds records of chess, and those of rows are read"):
        resolve_format(game_files[0], setting=setting, family="rows")


def test_a_file_that_is_empty_or_missing_has_the_default_of_its_family(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "empty", tmp_path / "missing"):
        assert resolve_format(path, setting="data.format") == "binpack"
        assert resolve_format(path, setting="data.format", family="rows") == "svmlight"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"other", "does not begin as any of the formats binpack, bulletformat, fen_csv, lichess_evals, "),
        (gzip.compress(b"other", mtime=0), "is compressed, and its name does not say what is in it; "),
    ],
)
def test_a_file_that_no_format_claims_is_told(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "other.dat"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        open_stream(data_config(batch_size=1), [path], seed=3)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert str(caught.value).endswith("; data.format says which it is")


def test_a_file_that_no_format_claims_is_left_out_where_damage_is(game_files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "other.dat"
    path.write_bytes(b"other")
    skipping = data_config(batch_size=1, on_bad_data="skip")
    with closing(open_stream(skipping, [path, game_files[0]], seed=3)) as stream:
        assert len(list(read_batches(stream, 1))) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "no file format 'nothing'; allowed: binpack, bulletformat, csv"),
        ("no.such.module", "no file format 'no.such.module'; allowed: binpack, bulletformat, csv"),
        ("../x", "no file format '../x'; allowed: binpack, bulletformat, csv"),
        ("loader.files.paths", "loader.files.paths: module.FAMILY is missing: a format must have it"),
    ],
)
def test_what_is_no_format_is_refused_by_name(name: str, said: str, game_files: list[Path]) -> None:
    with pytest.raises(ValueError, match=f"data.format: .*{said}"):
        open_stream(CONFIG.model_copy(update={"format": name}), game_files, SEED)


def test_a_format_of_another_family_is_refused(game_files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "FAMILY", "rows")
    with pytest.raises(ValueError, match=r"holds records of rows, and data\.source is chess"):
        open_stream(CONFIG.model_copy(update={"format": TEXT}), game_files, SEED)


def test_a_module_in_the_current_folder_is_a_format(tmp_path: Path) -> None:
    (tmp_path / "my_own_format.py").write_text(Path(text_format.__file__).read_text())
    code = "from loader.formats.registry import load_format; print(load_format('my_own_format').SUFFIXES)"
    run = [sys.executable, "-P", "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "('.txt',)\n"


def test_a_format_is_called_what_data_format_says(text_files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A format from outside may be an object, which has no name of its own."""
    monkeypatch.setattr(text_format, "OBJECT", SimpleNamespace(**vars(text_format)), raising=False)
    (file,) = identify(text_files[:1])
    for name in (TEXT, f"{TEXT}:OBJECT", "text"):
        assert Data(CONFIG.model_copy(update={"format": name})).format_name(file) == name
    assert Data(CONFIG).format_name(*identify([VALIDATION])) == "binpack"


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_format_from_outside_gives_the_entries_of_its_files(
    shuffle: bool, threads: int, text_files: list[Path], game_files: list[Path]
) -> None:
    config = CONFIG.model_copy(update={"format": TEXT, "shuffle": shuffle, "threads": threads, "tail": "drop"})
    known = [entry for file in game_files for entry in entries(file)]
    count = len(known) // config.batch_size
    made = batches(config, text_files, count)
    assert made == batches(config.model_copy(update={"threads": 1}), text_files, count), "threads change nothing (I1)"
    samples = [sample for batch in made for sample in batch]
    assert len(samples) == count * config.batch_size
    scores = Counter(entry.score for entry in known)
    assert not Counter(sample[0] for sample in samples) - scores


def test_in_file_order_its_stream_is_that_of_the_same_entries_in_binpack_files(
    text_files: list[Path], game_files: list[Path]
) -> None:
    config = CONFIG.model_copy(update={"shuffle": False})
    assert batches(config.model_copy(update={"format": TEXT}), text_files, 20) == batches(config, game_files, 20)


def test_it_is_filtered_and_estimated_as_any_other(text_files: list[Path]) -> None:
    config = data_config(
        batch_size=16, format=TEXT, chess={"features": "chess768", "filters": FilterConfig(skip_captures=True)}
    )
    assert Data.from_paths(config, text_files, SEED).samples_per_epoch()
    with open_stream(config, text_files, SEED) as stream:  # type: ignore[attr-defined]
        list(read_batches(stream, 3))
        read, kept, _ = stream.progress()
    assert 0 < kept < read


def test_its_damage_ends_the_stream_or_is_left_out(text_files: list[Path]) -> None:
    lines = text_files[0].read_bytes().splitlines(keepends=True)
    lines[60] = b"no entry\n"
    text_files[0].write_bytes(b"".join(lines))
    where = sum(map(len, lines[:60]))
    config = CONFIG.model_copy(update={"format": TEXT, "shuffle": False})
    with pytest.raises(DataError, match=f"{text_files[0]}: offset {where}: not enough values"):
        batches(config, text_files, 20)
    skipping = config.model_copy(update={"on_bad_data": "skip"})
    with open_stream(skipping, text_files, SEED) as stream:  # type: ignore[attr-defined]
        list(read_batches(stream, 5))
        assert [(error.file, error.offset) for error in stream.skipped()] == [(str(text_files[0]), where)]


def test_an_exception_of_its_code_is_one_line(text_files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format.TextReader, "read", lambda *_: {0: 1}[2])
    config = CONFIG.model_copy(update={"format": TEXT, "on_bad_data": "skip"})
    with pytest.raises(DataError, match=f"{text_files[0].parent}.*: KeyError: 2"):
        batches(config, text_files, 1)


def test_an_entry_that_is_none_is_damage(text_files: list[Path]) -> None:
    text_files[0].write_text("no position | e2e4 | 1 | 2 | 0\n")
    with pytest.raises(DataError, match="a FEN has 4 to 6 fields"):
        batches(CONFIG.model_copy(update={"format": TEXT, "shuffle": False}), text_files, 1)


def test_its_chunks_are_compared_when_they_are_read_again(
    text_files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.model_copy(update={"format": TEXT})
    with open_stream(config, text_files, SEED) as stream:  # type: ignore[attr-defined]
        words = np.zeros(stream.num_chunks, np.uint64)
        stream.compare_with(words)
        list(read_batches(stream, 10))
    assert words.any()
    monkeypatch.setattr(text_format, "Entry", lambda fen, move, _, *rest: Entry(fen, move, 7, *rest))
    with open_stream(config, text_files, SEED) as stream:  # type: ignore[attr-defined]
        stream.compare_with(words)
        with pytest.raises(DataChangedError, match="has other entries than when it was read first"):
            list(read_batches(stream, 1))


def test_files_of_several_formats_follow_one_another(text_files: list[Path], game_files: list[Path]) -> None:
    """Chunk by chunk in the order of the files, and a batch's origin says which."""
    mixed = [game_files[0], text_files[1], game_files[2]]

    def named(_: DataConfig, file: DataFile, *__: str) -> Format:
        return load_format(TEXT if file.path.suffix == ".txt" else "binpack")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loader.formats.readers.resolve_file_format", named)
        config = CONFIG.model_copy(update={"shuffle": False})
        known = batches(config, game_files[:3], 15)
        assert batches(config, mixed, 15) == known
        readers = open_readers(config, identify(mixed))
        assert [type(reader).__name__ for reader in readers] == ["EntriesReader", "TextReader", "EntriesReader"]
        origin = Data.from_paths(config.model_copy(update={"window_chunks": 1000}), mixed, SEED).origin(Cursor())
        files = [chunk["file"] for chunk in origin["chunks"]]
        assert json.loads(json.dumps(files)) == sorted(files, key=[str(file) for file in mixed].index)
