"""A category is its text: ids that are written in two ways are refused, named or mapped, and never two in silence."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import _native
from loader.cli.main import main
from loader.errors import DataError
from loader.files.identity import identify
from loader.rows.formats.parquet.file import inspect
from loader.rows.spellings import Spellings, classify_spelling, normalize_text
from loader.stream.data import Data, open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config

SIZE = 1 << 30
FLOATS = ["17.0", "18.0", "", "4.0"]
SPELLED = {
    "integers": ["17", "0", "-4", str(1 << 70)],
    "integers with .0": ["17.0", "-3.00", "+1.0", "017.0"],
    "integers with leading zeros": ["017", "00", "-01"],
    "integers with +": ["+17"],
    "numbers with thousands separators": ["1,234", "1'234'567", "1 234", "12,345.5", "1_000"],
    "numbers with an exponent": ["1e3", "1.7E+18", "-2e-5"],
    "numbers with a fraction": ["1.5", ".5", "5.", "-0.25"],
    "booleans as true": ["true", "false"],
    "booleans as True": ["True", "False"],
    "booleans as TRUE": ["TRUE"],
    "words for missing": ["null", "NaN", "None", "<NA>", "\\N", "N/A"],
    "dates as 2024-01-31": ["2024-01-31", "2024-01-31 12:00:00", "2024-01-31T12:00Z"],
    "dates as 31.1.2024 or 1/31/2024": ["31.1.2024", "1/31/2024", "31-01-24"],
    "several values by |": ["a|b", "1|2"],
    "several values by ;": ["a;b"],
    "several values by ,": ["a,b", "1,2"],
    "texts with spaces around": [" 17", "17 ", "a\t", "\u00a017"],
    "texts": ["a", "17a", "u-1", "trueish", "1.2.3", "0x17"],
}


def write(path: Path, users: list[str | None], kind: str = "string") -> Path:
    """Rows with these users, and labels."""
    if path.suffix == ".parquet":
        texts = pyarrow.array(users, pyarrow.string())
        column = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
        pyarrow.parquet.write_table(pyarrow.table({"label": [0] * len(users), "user": column}), path, row_group_size=3)
    else:
        path.write_text("label,user\n" + "".join(f'0,"{user or ""}"\n' for user in users))
    return path


def features(path: Path, **columns: Any) -> list[list[int]]:
    """The features of each row."""
    rows = {"fields": {"user": [0, SIZE]}, "values": False, "columns": columns}
    used = data_config(source="rows", batch_size=4, shuffle=False, rows=rows)
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        view = batch.sparse["user"]
        return [view.features[begin:end].tolist() for begin, end in pairwise(view.offsets.tolist())]


def hashes(*texts: str) -> list[list[int]]:
    return [[_native.xxh64(text.encode(), 0) % SIZE] if text else [] for text in texts]


@pytest.mark.parametrize("spelling", SPELLED)
def test_spellings_have_names(spelling: str) -> None:
    assert {classify_spelling(text) for text in SPELLED[spelling]} == {spelling}


@given(st.integers(), st.sampled_from(["{}", "{}.0", " {}", "{} ", "{}.000"]))
def test_spellings_of_an_integer_have_one_bare_form(number: int, spelling: str) -> None:
    assert normalize_text(spelling.format(number)) == str(number)
    assert normalize_text(spelling.format(f"{number:+021}")) == str(number)
    assert normalize_text(f"{number:,}") == str(number)
    assert normalize_text(f"{number}.5") != str(number)


@given(st.text(), st.text())
def test_other_texts_are_told_apart(first: str, second: str) -> None:
    counted = Spellings()
    counted.add({first: 2, second: 3} if first != second else {first: 5})
    assert sum(counted.counts.values()) == 5
    assert counted.pairs == (first != second and normalize_text(first) == normalize_text(second))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet"])
def test_ids_that_have_been_floats_are_refused_mapped_or_kept_as_the_settings_say(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name.removesuffix(".gz"), [*FLOATS])
    if name.startswith("a.tsv"):
        import gzip

        text = path.read_text().replace(",", "\t")
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ValueError, match=rf"{name}: user: all categories look like '17.0'.*float_ids to \"integer\""):
        features(path)
    assert features(path, float_ids="integer") == hashes("17", "18", "", "4")
    assert features(path, float_ids="text") == hashes(*FLOATS)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary", "float64", "float32"])
def test_parquet_columns_of_floats_are_integers_on_demand(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["17.0", "18.0", None, "4.0"], kind)
    with pytest.raises(ValueError, match=r"float_ids"):
        features(path)
    assert features(path, float_ids="integer") == hashes("17", "18", "", "4")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize(
    "users", [["17.0", "18"], ["17.0", "a"], ["17.5", "18.0"], ["", ""], ["17", "18"], [".0", "5."], ["1e-3", "1e-4"]]
)
def test_a_column_of_which_some_look_otherwise_is_read_as_it_stands(
    users: list[str | None], name: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, [*users, *users])
    assert features(path) == hashes(*[user or "" for user in [*users, *users]])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_floats_that_cannot_tell_ids_apart_are_refused(name: str, tmp_path: Path) -> None:
    good = write(tmp_path / name, [f"{(1 << 53) - 1}.0", f"-{(1 << 53) - 1}.0"] * 2)
    assert features(good, float_ids="integer") == hashes(str((1 << 53) - 1), f"-{(1 << 53) - 1}") * 2
    for user in (f"{1 << 53}.0", f"-{1 << 53}.0"):
        bad = write(tmp_path / name, ["17.0", user])
        with pytest.raises(DataError, match=r"expected (an id|ids) below"):
            features(bad, float_ids="integer")
    with pytest.raises(ValueError, match=r"all categories look like '1.7e\+18'"):
        features(write(tmp_path / name, ["1.7e+18", "1.8e+18"]))


def test_missing_texts_are_no_spelling(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["17.0", "-", "18.0", "nan"])
    assert features(path) == hashes("17.0", "-", "18.0", "nan")
    with pytest.raises(ValueError, match=r"all categories look like '17.0'"):
        features(path, missing=["-", "nan"])


def facts(*paths: Path, **columns: Any) -> list[str]:
    rows = {"fields": {"user": [0, SIZE]}, "values": False, "columns": columns}
    config = data_config(source="rows", batch_size=4, rows=rows)
    return [fact.text for fact in Data(config, identify(paths)).describe() if fact.topic == "ids"]


@pytest.mark.parametrize("word", ["NA", "nan", "null", "None"])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_words_for_missing_do_not_hide_floats(name: str, word: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [word, "17.0", word, "18.0"])
    with pytest.raises(ValueError, match=r"all categories look like '17.0'"):
        features(path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_what_was_appended_later_is_in_the_sample(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [*map(str, range(4000)), *(f"{user}.0" for user in range(400))])
    (text,) = facts(path)
    assert "integers with .0" in text
    assert "are two categories" in text
    path = write(tmp_path / name, [*[None] * 2000, *["17.0"] * 500])
    with pytest.raises(ValueError, match=r"all categories look like '17.0'"):
        features(path)


@pytest.mark.parametrize("kind", ["float64", "binary", "time32[s]"])
def test_parquet_columns_of_other_types_are_refused_before_a_row_is_read(kind: str, tmp_path: Path) -> None:
    column = pyarrow.array([1, 2], pyarrow.int32()).cast(pyarrow.time32("s") if kind == "time32[s]" else "string")
    path = tmp_path / "a.parquet"
    column = column if kind == "time32[s]" else column.cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"label": [0, 1], "user": column}), path)
    with pytest.raises(DataError, match=r"user: a column of text, integers, booleans or dates is expected"):
        facts(path)


def test_lists_of_texts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"user": [["17", "17.0"], [], None]}), path)
    assert inspect(path, None).columns[0].spellings.counts == {"integers": 1, "integers with .0": 1}


@pytest.mark.parametrize("name", ["{}.csv", "{}.parquet"])
def test_spellings_of_all_files_are_described_together(name: str, tmp_path: Path) -> None:
    first = write(tmp_path / name.format("a"), ["17", "18", "19", None])
    second = write(tmp_path / name.format("b"), ["017", "20"])
    text = "a category is its text, so that 17 and 17.0 are two"
    assert facts(first) == [f"{text}: user (integers)"]
    assert facts(first, second) == [
        "user: integers 4, integers with leading zeros 1; '17' and '017' are two categories (a sample of 1,024 rows of "
        "each of 2 files)"
    ]


def test_damage_in_the_sample_is_left_to_whoever_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('label,user\n0,17\n0,"18\n0,19,20\n0,18.0\n')
    assert facts(path) == [
        "user: integers 1, integers with .0 1 (a sample of 1,024 rows)",
    ]
    with pytest.raises(DataError, match="line 3"):
        features(path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_inspect_counts_spellings_by_column(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = ["17", "17.0", "17", " 17", "017", "True", "a|b", None]
    path = write(tmp_path / name, [*users])
    assert main(["inspect", "--json", str(path)]) == 0
    label, user = json.loads(capsys.readouterr().out)["columns"]
    assert user["spellings"]["counts"] == {
        "integers": 2,
        "integers with .0": 1,
        "texts with spaces around": 1,
        "integers with leading zeros": 1,
        "booleans as True": 1,
        "several values by |": 1,
    }
    assert (user["spellings"]["pairs"], user["spellings"]["example"][0]) == (3, "17")
    assert label["spellings"]["counts"] == {"integers": 8}
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out
    assert "1 missing, spellings: integers 2, integers with .0 1" in lines
    assert "are two categories, and 2 more such pairs" in lines
    assert lines.count("spellings:") == 1


def test_inspect_says_nothing_of_the_spellings_of_real_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(write(tmp_path / "a.csv", ["1.5", "2.0", "3", "1e3"]))]) == 0
    assert "spellings" not in capsys.readouterr().out


def test_reported_ids_train_as_integers_alone(shared_data: Path) -> None:
    floats, integers = (shared_data / f"reports-2/rows/{name}.csv" for name in ("flt", "int"))
    with pytest.raises(ValueError, match=r"flt.csv: user: all categories look like '17.0'"):
        features(floats, label="clicked")
    assert features(floats, label="clicked", float_ids="integer") == hashes("17", "18", "", "4")
    assert features(integers, label="clicked") == hashes("17", "18", "3", "4")


@pytest.mark.parametrize(
    ("first", "label", "said"),
    [
        ("1,17", 0, "column 0 (data.rows.columns.label) is called '1', as if this were a row: a file without a header"),
        (
            "0,u17",
            0,
            "column 0 (data.rows.columns.label) is called '0', as if this were a row: a file without a header",
        ),
        ("1,17.0", "label", "there are 1, 17.0; a file without a header needs data.rows.columns.header = false"),
        ("0,1", 0, None),
        ("label,user", 0, None),
    ],
)
def test_the_first_row_of_a_file_without_a_header_is_not_lost(
    first: str, label: str | int, said: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n" + "1,18\n" * 4)
    if said is None:
        assert features(path, label=label, sparse={"user": 1}) == hashes("18") * 4
        return
    with pytest.raises(DataError) as caught:
        features(path, label=label, sparse={"user": 1})
    assert said in str(caught.value)
