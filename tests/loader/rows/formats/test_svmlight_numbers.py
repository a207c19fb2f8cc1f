"""Feature numbers of all lengths, wherever in a text they stand."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config

NUMBERS = [10**length + (3**length) % 10**length for length in range(9)]
SHORT = data_config(
    source="rows", batch_size=1, shuffle=False, rows={"num_features": 10**9, "max_active": 99, "values": False}
)


@pytest.mark.parametrize("behind", ["\n", "", " \n", "# none\n", "\r\n"])
def test_numbers_are_read_whatever_their_length_and_what_is_behind(behind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    rows = [NUMBERS[:count] for count in range(1, len(NUMBERS) + 1)]  # the last ones near the end of the text
    zeros = "0" * 9
    lines = [f"1 {' '.join(f'{number}:1' for number in row)}" for row in rows] + [f"0 {zeros}:1 {zeros}7:1"]
    path.write_text("\n".join(lines) + behind)
    with closing(open_stream(SHORT, [path], seed=1)) as stream:
        found = [batch.sparse["features"].features.tolist() for batch in read_batches(stream, len(lines))]
    assert found == [*rows, [0, 7]]
    assert len(np.unique(NUMBERS)) == len(NUMBERS)
