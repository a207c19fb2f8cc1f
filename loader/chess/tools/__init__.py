"""The work of the commands `loader convert`, `head`, `sample`, `count`, `split`, `shuffle`, `filter` and `dedupe`."""
