"""Parquet files of positions, as the page on data brings them: through a pipe, with the columns of a table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from loader.chess.positions.inputs import entries
from tests.support.paths import ROOT

PAGE = ROOT / "docs/how-to/bring-your-data.md"
FENS = ["rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -", "8/8/4k3/8/8/3QK3/8/8 w - -"]


@pytest.mark.parametrize("number", [pyarrow.int16(), pyarrow.int32(), pyarrow.float64()])
def test_the_script_of_the_page_makes_a_table_of_several_batches(tmp_path: Path, number: pyarrow.DataType) -> None:
    found = re.search(r'```python title="rows_of.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    script, path = tmp_path / "rows_of.py", tmp_path / "evals.parquet"
    script.write_text(found[1])
    columns = {"line": ["c7c5", "e3e4"], "depth": [30, 20], "fen": FENS}
    columns |= {"cp": pyarrow.array([31, None], number), "mate": pyarrow.array([None, 9], number)}
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table] * 40_000), path)
    rows = subprocess.run([sys.executable, str(script), str(path)], capture_output=True, check=True, timeout=60).stdout
    assert rows.count(b"fen") == 2, "a header for each batch"
    run = [sys.executable, "-m", "loader", "convert", "-", "-o", str(tmp_path / "evals.txt")]
    subprocess.run(run, input=rows, check=True, timeout=60)
    read = [(entry.score, entry.result) for entry in entries(tmp_path / "evals.txt")]
    assert read == [(-31, None), (31983, None)] * 40_000
