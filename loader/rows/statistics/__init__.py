"""Statistics and verdicts of files of rows: `loader inspect`, `verify` and `dump`."""
