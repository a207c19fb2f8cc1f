#!/usr/bin/env bash
# pyarrow 26.0.1, duckdb 2.0.1: whole numbers from 2^63 on become float64, and different ids become one.
#
# Guess: uint64, as pandas infers, or 128 bits as polars does, or text. Arrow has uint64; its page on csv says that a column
#   becomes float64 if it holds decimal numbers. duckdb infers HUGEINT, which holds them.
# Seen: one id of 2^63 or more makes pyarrow's csv and JSON readers give the whole column as double:
#   9223372036854775809 and 9223372036854775811 are equal afterwards, and smaller ids beyond 2^53 lose their last digit. duckdb
#   reads them exactly, and its df() and fetchnumpy() turn HUGEINT, which every sum of integers is, into float64.
# Matters: hashes of 64 bits are ids in click logs; half of them have the highest bit. Give column_types, or read text.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 numpy==2.4.6
python - <<'PYTHON'
import sys
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.json

ids = [2**53 + 1, 2**63 + 1, 2**63 + 3]
Path("ids.csv").write_text("id\n" + "".join(f"{each}\n" for each in ids))
Path("ids.jsonl").write_text("".join(f'{{"id": {each}}}\n' for each in ids))
query = "select id from 'ids.csv'"
print("versions: pyarrow", pyarrow.__version__, "duckdb", duckdb.__version__)
print("guess: every reader gives", ids)
seen = {
    "pandas": pandas.read_csv("ids.csv")["id"].tolist(),
    "polars": polars.read_csv("ids.csv")["id"].to_list(),
    "duckdb fetchall": [row[0] for row in duckdb.connect().execute(query).fetchall()],
    "duckdb df": duckdb.connect().execute(query).df()["id"].tolist(),
    "duckdb fetchnumpy": duckdb.connect().execute(query).fetchnumpy()["id"].tolist(),
    "pyarrow csv": pyarrow.csv.read_csv("ids.csv")["id"].to_pylist(),
    "pyarrow json": pyarrow.json.read_json("ids.jsonl")["id"].to_pylist(),
}
for name, found in seen.items():
    print("seen:", name, found, len(set(found)), "different")
right, merged = list(seen.values())[:3], list(seen.values())[3:]
sys.exit(not (all(found == ids for found in right) and all(found == [2.0**53, 2.0**63, 2.0**63] for found in merged)))
PYTHON
