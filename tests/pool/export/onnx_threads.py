"""Many rows in one call of an exported network, on 1, 2 and 4 threads: `python -m tests.pool.export.onnx_threads`.

onnxruntime goes parallel above a size, and some of its kernels are wrong then: a batch of a few rows shows nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.files.identity import identify
from loader.rows.readers import without_labels
from loader.stream.data import Data
from loader.stream.sequential import read_in_file_order
from pool.commands.main import main
from pool.config.load import parse_config
from pool.export.onnx import TOLERANCE, model_inputs
from tests.pool.export.test_onnx import clicks, exported, write_rows


def check_threads(folder: Path, kind: str, rows: int, threads: Sequence[int], calls: int) -> None:
    """Compares each of so many calls on each number of threads with `pool predict`, for rows of which some have empty
    fields."""
    tree = clicks(kind, dense=False, values=True)
    data = write_rows(folder / "rows.npz", rows, values=True)
    sessions = {number: exported(folder, tree, number) for number in threads}
    assert main(["predict", str(folder / "run"), "--data", str(data), "-o", str(folder / "right.tsv")]) == 0
    expected = np.loadtxt(folder / "right.tsv")
    tree["data"]["batch_size"] = rows
    ((batch, order),) = read_in_file_order(Data(without_labels(parse_config(tree, "test").data), identify([data]), 42))
    inputs = {name: tensor.numpy() for name, tensor in model_inputs(batch).items() if name != "label"}
    for number, session in sessions.items():
        for call in range(calls):
            (found,) = session.run(None, inputs)
            wrong = _count_differences(found, expected[order])
            assert not wrong, f"{kind}, {number} threads, call {call}: {wrong} of {rows} rows differ"


def _count_differences(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float64]) -> int:
    assert found.shape == expected.shape
    return int((np.abs(found - expected) > TOLERANCE).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=20)
    arguments = parser.parse_args()
    for model in ("logistic", "factorization"):
        with tempfile.TemporaryDirectory() as temporary:
            check_threads(Path(temporary), model, arguments.rows, (1, 2, 4), arguments.calls)
        sys.stdout.write(f"{model}: {arguments.rows:,} rows, {arguments.calls} calls on 1, 2, 4 threads: right\n")
