"""Commands on a Parquet file, again and again beside load: `python -m tests.loader.rows.formats.parquet_exits`.

A thread of pyarrow's that lets go of Python's memory while the process ends aborts it, after all output, in some of a
hundred calls on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pyarrow.parquet

COMMANDS = ("verify", "inspect", "dump")


def write_table(path: Path) -> Path:
    """Writes several row groups of texts and numbers without compression, whose pages stay in the memory of Python."""
    rows = 20_000
    columns = {f"text{number}": [f"{row % 997} of {number}" for row in range(rows)] for number in range(6)}
    table = pyarrow.table({**columns, "number": range(rows)})
    pyarrow.parquet.write_table(table, path, row_group_size=5000, compression="none", use_dictionary=False)
    return path


def exit_codes(path: Path, calls: int) -> set[int]:
    """Runs each of the commands so many times, twice as many at once as there are cores, and returns their codes."""

    def run(command: str) -> int:
        words = [sys.executable, "-m", "loader", command, str(path)]
        return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode

    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as threads:
        return set(threads.map(run, COMMANDS * calls))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        codes = exit_codes(write_table(Path(temporary) / "a.parquet"), arguments.calls)
    assert codes == {0}, f"exit codes {sorted(codes)}"
    sys.stdout.write(f"{', '.join(COMMANDS)}: {arguments.calls} calls of each ended with 0\n")
