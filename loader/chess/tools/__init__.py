"""The work of `loader convert`, `split`, `shuffle`, `interleave`, `head`, `cat`, `sample`, `count`, `filter` and
`dedupe`."""
