"""The program `loader`: commands for any data, a module for each group, and the commands of each family (its folder
`cli`).

Exit codes: 0 fine, 1 the data (or the engine) is at fault, 2 the command line is, 71 no memory or disk space is left,
130, 143 and 129 interrupted by SIGINT, SIGTERM and SIGHUP.
"""

from __future__ import annotations

from loader.cli import inspect, verify
from loader.cli.families import families
from loader.command_line.program import Program
from loader.exit_codes import EXIT_FAILED

PROGRAM = Program(
    "loader",
    "loader",
    "Look into, check, convert, filter, mix, make and time training data.",
    (inspect, verify, *(command for family in families().values() for command in family.COMMANDS)),
    EXIT_FAILED,
)
main = PROGRAM.main
