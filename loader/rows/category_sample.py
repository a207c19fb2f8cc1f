"""Samples the categories (texts) of a file's columns, to show before a run how they are spelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from loader.files.identity import DataFile
from loader.rows.spellings import Spellings, find_common_float_id
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact

SAMPLED_ROWS = 1024
_SAMPLED_FILES = 8

CategorySample = Mapping[str, Sequence[str]]  # texts that are not missing, by the name of their field or column


@runtime_checkable
class CategoryFormat(Protocol):
    """A format whose sparse fields are made of the texts in columns."""

    def category_sample(self, config: DataConfig, file: DataFile) -> CategorySample:
        """Returns the categories in at most SAMPLED_ROWS of the file's rows. Raises DataError."""


def sampled_parts(count: int) -> list[int]:
    """Returns the numbers of the parts of a file to sample, out of `count`: the first, the middle and the last one."""
    return sorted({0, count // 2, count - 1}) if count else []


def sampled_rows(count: int) -> list[int]:
    """Returns the numbers of the rows to sample, out of `count`: the first ones, and as many spread evenly up to the
    last, since rows that were appended later may be spelled otherwise."""
    if count <= SAMPLED_ROWS:
        return list(range(count))
    half = SAMPLED_ROWS // 2
    return [*range(half), *(half + (count - half) * i // half for i in range(half - 1)), count - 1]


def column_names(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns a name for each column of each field: the field's name if it has only one column."""
    names = []
    for field, columns in fields.items():
        if len(columns) == 1:
            names.append(field)
        else:
            names += [f"{field} ({column})" for column in columns]
    return names


def present_texts(texts: Sequence[str | None], missing: Collection[str]) -> list[str]:
    """Returns the texts that stand for a value: neither None nor one of `missing`."""
    return [text for text in texts if text is not None and text not in missing]


def refuse_float_ids(path: Path, sample: CategorySample) -> None:
    """Raises ValueError if all categories of a column look like integers that were once floats, as 17.0.

    It is no DataError, since nothing is damaged: data.on_bad_data = "skip" must not leave the file out.
    """
    for name, texts in sample.items():
        example = find_common_float_id(texts)
        if example is not None:
            raise ValueError(
                f"{path}: {name}: all categories look like {example!r}, as integers do that have been floats (pandas "
                "makes them floats once one is missing), and that is another category than the integer: write integers "
                '(in pandas: .astype("Int64")), or set data.rows.columns.float_ids to "integer", or to "text" if they '
                "are meant like that"
            )


def describe_categories(config: DataConfig, files: Sequence[tuple[DataFile, CategoryFormat]]) -> Iterator[DataFact]:
    """Describes how the categories of the files are spelled, from a sample of their rows. Yields one fact for each
    column with several spellings, or with one that is often a mistake, and one fact for all other columns. Raises
    DataError."""
    spellings: dict[str, Spellings] = {}
    for file, format in files[:_SAMPLED_FILES]:
        for name, texts in format.category_sample(config, file).items():
            spellings.setdefault(name, Spellings()).add(Counter(texts))
    basis = f"a sample of {SAMPLED_ROWS:,} rows"
    if len(files) > 1:
        basis += f" of each of {min(len(files), _SAMPLED_FILES)} files"
    plain_columns = []
    for name, column in spellings.items():
        if column.is_plain:
            plain_columns.append(f"{name} ({next(iter(column.counts), 'none')})")
        else:
            yield DataFact("ids", f"{name}: {column.summary()} ({basis})")
    if plain_columns:
        yield DataFact("ids", f"a category is its text, so that 17 and 17.0 are two: {', '.join(plain_columns)}")
