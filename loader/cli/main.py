"""The `loader` command: its commands lie in loader/cli, those of chess alone in loader/chess/cli, one module a group.

Exit codes: 0 fine, 1 the data (or the engine) is at fault, 2 the command line is, 71 no memory or disk space is left,
130, 143 and 129 interrupted by SIGINT, SIGTERM and SIGHUP.
"""

from __future__ import annotations

from loader.chess.cli import convert, filter, generate, match, rescore, shuffle
from loader.cli import bench, inspect, verify
from loader.command_line.program import Program
from loader.exit_codes import EXIT_FAILED

PROGRAM = Program(
    "loader",
    "loader",
    "Look into, check, convert, filter, mix, make and time training data.",
    (inspect, verify, convert, filter, shuffle, generate, match, rescore, bench),
    EXIT_FAILED,
)
main = PROGRAM.main
