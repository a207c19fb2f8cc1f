"""The program `pool`. Its commands are in pool/commands, and with the tasks that offer some."""

from __future__ import annotations

from loader.command_line.program import Program
from loader.exit_codes import EXIT_DATA
from pool.commands import (
    check,
    configs,
    demo,
    export,
    find_lr,
    machines,
    predict,
    recipe,
    runs,
    sweep,
    train,
    watch,
)
from pool.task.registry import load_command_groups

ABOUT = "Train networks with a huge sparse first layer on all devices of a machine, or of several."
# in the order of a first day: try it, choose a config, train, look, use the network; then what few runs need
GROUPS = (
    *(demo, configs, train, check, runs, watch, export),
    *load_command_groups(),
    *(predict, find_lr, sweep, recipe, machines),
)
FORMER_SPELLINGS = {
    "train --check": "pool check CONFIG",
    "train --measure": "pool check CONFIG --measure",
    "machines-key": "pool machines --new-key FILE",
    **dict.fromkeys((f"train --{name}" for name in ("list", "until", "rerun")), "pool recipe RECIPE"),
    **dict.fromkeys(
        (f"train --{name}" for name in ("machines", "machine", "first", "interface", "port", "key", "local")),
        "pool machines CONFIG",
    ),
}

PROGRAM = Program("pool", "sparsepool", ABOUT, GROUPS, EXIT_DATA, FORMER_SPELLINGS)
main = PROGRAM.main
