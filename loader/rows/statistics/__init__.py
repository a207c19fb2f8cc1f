"""What files of rows hold, for people: `loader inspect`, `verify` and `dump`."""
