"""Becomes another program that dies with the supervisor: `python -m pool.process.become PID PROGRAM ARGUMENT...`.

PID is the supervisor's. The kernel kills the program when the supervisor dies, and keeps that promise through exec. If
the program can't be run, one line on stderr says why.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from pool.process.lifeline import die_with_parent

NOT_RUN = 127  # exit code, as a shell has it


def main(arguments: list[str]) -> NoReturn:
    """Replaces this process by a program that the kernel kills when the parent dies.

    `arguments`: process id of the parent, then the program and its arguments. Exits with code 127 if the program can't
    be run.
    """
    parent, *command = arguments
    die_with_parent(int(parent))
    try:
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"{command[0]}: {reason}\n")
        sys.stderr.flush()
        os._exit(NOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
