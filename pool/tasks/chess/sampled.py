"""Positions of files, to see what a network does with them: training data of any format, or FENs. Free of torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from loader.files.identity import identify
from loader.stream.schema import SparseBatch
from loader.stream.sequential import batches_in_order
from loader.stream.sources import find_files
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.tasks.chess.positions import Inputs, Position, listed_positions

MOST = 8192
_APART = 4  # every fourth: neighbours in a file are of one game
_BATCH = 1024
_LISTS = (".epd", ".fen", ".txt")
_FIELD = "features"


def sampled_positions(patterns: Sequence[str], inputs: Inputs, option: str, most: int = MOST) -> list[Position]:
    """Up to `most`, every fourth of the files' first ones; of a file with a FEN or EPD a line all. Raises DataError,
    and ConfigError that names `option` if there are none."""
    try:
        files = find_files(patterns, option)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    lists = [file for file in files if file.suffix in _LISTS]
    data = [file for file in files if file.suffix not in _LISTS]
    listed = (named.position for file in lists for named in listed_positions(file, inputs))
    found = list(itertools.islice(itertools.chain(listed, _of_data(data, inputs, option)), most))
    if not found:
        raise ConfigError(f"{option}: no position in {', '.join(patterns)}")
    return found


def _of_data(files: Sequence[Path], inputs: Inputs, option: str) -> Iterator[Position]:
    if not files:
        return
    chess = {"features": inputs.features, "king_buckets": list(inputs.king_buckets), "output_buckets": "single"}
    config = parse_config({"data": {"batch_size": _BATCH, "chess": chess}}, option)
    try:
        for batch, order in batches_in_order(config.data, identify(files), seed=0):
            yield from itertools.islice(positions_of(batch, len(order)), 0, None, _APART)
    except OSError as error:
        raise ConfigError(f"{option}: {error.filename}: {error.strerror}") from None


def positions_of(batch: SparseBatch, samples: int) -> Iterator[Position]:
    """The features that networks see of the samples, in the order of the batch."""
    view = batch.sparse[_FIELD]
    borders = view.offsets.tolist()
    features = view.features.astype("int64")
    bags = [features[start:end] for start, end in itertools.pairwise(borders)]
    pieces = batch.dense["piece_count"].tolist()
    for number in range(samples):
        yield Position(bags[number], bags[samples + number], pieces[number])
