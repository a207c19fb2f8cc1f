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
    samples_per_chunk = _measure_samples_per_chunk(source, components, threads)
    return _native_components(components, samples_per_chunk)


def estimate_portions(source: _native.Source, components: Sequence[OpenedComponent], threads: int) -> list[Portion]:
    """Estimates the samples and passes of each component in an epoch, in the order of the components. Raises as
    `measure_components`."""
    samples_per_chunk = _measure_samples_per_chunk(source, components, threads)
    chunk_reads = _native.reads_of_an_epoch(_native_components(components, samples_per_chunk))
    return [
        Portion(opened.component, samples=round(reads * samples), passes=reads / opened.num_chunks)
        for opened, samples, reads in zip(components, samples_per_chunk, chunk_reads, strict=True)
    ]


def _native_components(
    components: Sequence[OpenedComponent], samples_per_chunk: Sequence[float]
) -> list[_native.Component]:
    return [
        _native.Component(opened.num_chunks, opened.component.share / samples)
        for opened, samples in zip(components, samples_per_chunk, strict=True)
    ]


def _measure_samples_per_chunk(
    source: _native.Source, components: Sequence[OpenedComponent], threads: int
) -> list[float]:
    """Returns for each component the mean number of samples per chunk that pass the filters, from up to SAMPLED_CHUNKS
    chunks. Raises as `measure_components`."""
    if not components:
        return []
    first_chunk = 0
    chunks_of_components = []
    for opened in components:
        chunks = _select_chunks(opened.num_chunks, in_order=source.in_file_order)
        chunks_of_components.append([first_chunk + chunk for chunk in chunks])
        first_chunk += opened.num_chunks
    with ThreadPoolExecutor(min(threads, len(components))) as pool:
        counts_of_components = list(pool.map(source.count_kept, chunks_of_components))
    for opened, counts in zip(components, counts_of_components, strict=True):
        if not sum(counts):
            raise ValueError(
                f"data.train: entry {opened.component.number + 1}: the {len(counts)} chunks that were looked at have "
                "no sample that passes the filters, so its share can't be kept; leave it out, or change the filters"
            )
    return [sum(counts) / len(counts) for counts in counts_of_components]


def _select_chunks(num_chunks: int, *, in_order: bool) -> list[int]:
    """Returns the numbers of up to SAMPLED_CHUNKS chunks to measure, spread evenly over all. With `in_order`, where
    chunks can only be decoded one after the other, these are the first ones."""
    count = min(num_chunks, SAMPLED_CHUNKS)
    if in_order:
        return list(range(count))
    return [(2 * i + 1) * num_chunks // (2 * count) for i in range(count)]
