"""What `loader convert`, `split`, `shuffle`, `interleave`, `head`, `cat`, `sample` and `count` do."""
