"""A command of `train.on_export` for tests: `tried_net.py NET STEP FOLDER [GATE_STEP]`.

Notes its call in FOLDER/calls; at GATE_STEP it waits until FOLDER/go is there; says numbers in its last line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support.wait import wait_for


def main() -> None:
    net, step, folder, *gate = sys.argv[1:]
    with (Path(folder) / "calls").open("a") as file:
        file.write(f"{Path(net).name} {os.getpid()} {Path(net).stat().st_size > 0}\n")
    if gate == [step]:
        wait_for(lambda: (Path(folder) / "go").exists(), "the gate", 60)
    sys.stdout.write(f"playing\n{json.dumps({'elo': int(step) / 10, 'games': 2, 'who': 'x'})}\n")


main()
