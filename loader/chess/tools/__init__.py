"""The work of `loader convert`, `split`, `shuffle`, `head`, `sample`, `count`, `filter` and `dedupe`."""
