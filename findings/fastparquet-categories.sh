#!/usr/bin/env bash
# fastparquet 2026.9.0: read as categories, a column whose row groups have dictionaries of their own gets wrong values.
#
# Guess: the same values as without `categories`, only as a categorical: to_pandas asks for columns that have a dictionary in
#   every row group. In Parquet each row group has its own, and pyarrow, polars and duckdb map them.
# Seen: the numbers of all row groups are looked up in the last dictionary: a b a | z b a is read as z b z | z b a. No error
#   and no warning.
# Matters: categories are what such files are read for before training; any file that was written in pieces has them.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python fastparquet==2026.9.0 pyarrow==26.0.1 pandas==3.1.1
python - <<'PYTHON'
import sys

import fastparquet
import pyarrow
import pyarrow.parquet

schema = pyarrow.schema([("c", pyarrow.string())])
with pyarrow.parquet.ParquetWriter("c.parquet", schema) as writer:
    for texts in (["a", "b", "a"], ["z", "b", "a"]):
        writer.write_table(pyarrow.table({"c": texts}, schema=schema))
file = fastparquet.ParquetFile("c.parquet")
plain, categories = file.to_pandas()["c"].tolist(), file.to_pandas(categories=["c"])["c"].tolist()
print("version: fastparquet", fastparquet.__version__)
print("guess:", plain)
print("seen: ", categories)
sys.exit(not (plain == ["a", "b", "a", "z", "b", "a"] and categories == ["z", "b", "z", "z", "b", "a"]))
PYTHON
