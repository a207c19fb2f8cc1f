"""The frame of both programs: standard streams, errors as one line, exit codes, completion."""
