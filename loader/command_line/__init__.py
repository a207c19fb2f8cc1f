"""What both programs have in common: standard streams, errors as one line, exit codes, completion."""
