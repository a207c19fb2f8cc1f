"""Decides how many chunks of each component (files of one share) a mixture reads, so that samples come in the ratio of
the shares.

A share is a part of the samples that pass the filters, and chunks of different files hold different numbers of them. So
a few chunks of each component are read when a stream is opened. The result is a function of files, settings and seed
(I1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, TypeVar

from loader import _native
from loader.files.identity import Component, DataFile

SAMPLED_CHUNKS = 8  # chunks of each component that are read to measure it


class Chunked(Protocol):
    """A reader of files that knows its number of chunks."""

    @property
    def num_chunks(self) -> int:
        """Returns the number of chunks in all files of the reader."""


R = TypeVar("R", bound=Chunked)


@dataclass(frozen=True)
class OpenedComponent:
    """Files that have one share of the samples, and their number of chunks once they are open."""

    component: Component
    num_chunks: int


@dataclass(frozen=True)
class Portion:
    """The estimated part of an epoch that comes from one component (files of one share)."""

    component: Component
    samples: int
    passes: float  # number of times that its files are read in an epoch


def open_components(
    files: Sequence[DataFile], open_readers: Callable[[Sequence[DataFile]], list[R]]
) -> tuple[list[R], tuple[OpenedComponent, ...]]:
    """Opens the files with `open_readers`, component by component (files of one share). Returns the readers of all
    files, and the components in their order, none if the files have no shares. Raises as `open_readers`."""
    if not files or files[0].component is None:
        return open_readers(files), ()
    readers: list[R] = []
    components = []
    for component, group in groupby(files, key=lambda file: file.component):
        assert component is not None, "all files have shares, or none"
        opened = open_readers(list(group))
        readers += opened
        components.append(OpenedComponent(component, sum(reader.num_chunks for reader in opened)))
    return readers, tuple(components)


def measure_components(
    source: _native.Source, components: Sequence[OpenedComponent], threads: int
) -> list[_native.Component]:
    """Returns each component's number of chunks and its rate: share / samples kept per chunk, measured on a few chunks.
    Raises DataError for a file that can't be read, ValueError if no sample of a component passes the filters."""
    return [
        _native.Component(opened.num_chunks, opened.component.share / kept)
        for opened, kept in zip(components, _kept_per_chunk(source, components, threads), strict=True)
    ]


def estimate_portions(source: _native.Source, components: Sequence[OpenedComponent], threads: int) -> list[Portion]:
    """Estimates the samples and passes of each component in an epoch, in the order of the components. Raises as
    `measure_components`."""
    kept = _kept_per_chunk(source, components, threads)
    reads = _native.reads_of_an_epoch(
        [
            _native.Component(opened.num_chunks, opened.component.share / per_chunk)
            for opened, per_chunk in zip(components, kept, strict=True)
        ]
    )
    return [
        Portion(opened.component, round(count * per_chunk), count / opened.num_chunks)
        for opened, per_chunk, count in zip(components, kept, reads, strict=True)
    ]


def _kept_per_chunk(source: _native.Source, components: Sequence[OpenedComponent], threads: int) -> list[float]:
    """Returns for each component the mean number of samples per chunk that pass the filters, from up to LOOKED_AT
    chunks. Raises as `measure_components`."""
    if not components:
        return []
    begin, looks = 0, []
    for opened in components:
        looks.append([begin + place for place in _places(opened.num_chunks, in_order=source.in_file_order)])
        begin += opened.num_chunks
    with ThreadPoolExecutor(min(threads, len(looks))) as pool:
        counts = list(pool.map(source.count_kept, looks))
    for opened, kept in zip(components, counts, strict=True):
        if not sum(kept):
            raise ValueError(
                f"data.train: entry {opened.component.number + 1}: the {len(kept)} chunks that were looked at have no "
                "sample that passes the filters, so its share can't be kept; leave it out, or change the filters"
            )
    return [sum(kept) / len(kept) for kept in counts]


def _places(num_chunks: int, *, in_order: bool) -> list[int]:
    """Returns the numbers of up to LOOKED_AT chunks to measure, spread evenly over all. With `in_order`, where chunks
    can only be decoded one after the other, these are the first ones."""
    count = min(num_chunks, SAMPLED_CHUNKS)
    return list(range(count)) if in_order else [(2 * i + 1) * num_chunks // (2 * count) for i in range(count)]
