"""The command `pool`: its commands lie in pool/commands, and with the tasks that offer some."""

from __future__ import annotations

from loader.command_line.program import Program
from loader.exit_codes import EXIT_DATA
from pool.commands import configs, demo, export, find_lr, predict, runs, sweep, train, watch
from pool.task.registry import command_groups

ABOUT = "Train networks with a huge sparse first layer on all devices of a machine, or of several."
GROUPS = (demo, train, sweep, find_lr, runs, watch, export, *command_groups(), predict, configs)

PROGRAM = Program("pool", "sparsepool", ABOUT, GROUPS, EXIT_DATA)
main = PROGRAM.main
