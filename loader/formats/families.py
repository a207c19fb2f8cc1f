"""The families of formats that come with the loader. No other module for data of any kind names a family."""

from __future__ import annotations

# The package of each, by the name of its source. `PACKAGE.formats` holds the formats, and the DEFAULT of an empty file;
# `PACKAGE.cli.family` is a `loader.formats.file_tools.Family`. An empty file may be of any, and is of the first one.
FAMILIES = {"chess": "loader.chess", "rows": "loader.rows"}
