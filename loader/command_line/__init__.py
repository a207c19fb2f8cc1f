"""What the programs `loader` and `pool` share: standard streams, errors as one line, exit codes, completion."""
