"""What `loader inspect`, `verify` and `dump` show of files of rows."""
