"""Exit codes of both programs, `loader` and `pool`. An error class has the code with which it ends the program."""

EXIT_DONE = 0
EXIT_FAILED = 1  # a file, an engine, a checkpoint, or a process of a run that can't go on
EXIT_USAGE = 2  # command line or config
EXIT_DATA = 65  # `pool`: damaged data
EXIT_UNAVAILABLE = 69  # `pool`: what the run needs is not there now, or in use; another start may find it
EXIT_RESOURCES = 71  # not enough memory, disk or descriptors
EXIT_CRASH_LOOP = 75  # `pool`: a process died again and again; another start may help
EXIT_SIGNALLED = 128  # and the signal's number, as a shell says it
EXIT_INTERRUPTED = 130  # stopped by Ctrl-C
EXIT_PIPE_CLOSED = 141  # the output's reader has closed it (`pool eval ... | head`), as if ended by SIGPIPE
