"""Draws a run whose processes are killed: `python docs/pictures/kill.py PICTURE.svg`.

Trains the bundled config twice. In the second run a worker and then the coordinator get SIGKILL. The picture has what
that run printed until its last step, the step lines up to the loss, and the sha256 of both runs' final weights. Exits
with 1 if these differ.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from progress import draw

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = "configs/demo.toml"
STEPS = 60
KILLED_AFTER = {"worker 1": 15, "coordinator": 35}  # steps
STEP_DETAILS = re.compile(r"(?<=loss \d\.\d{6})  .*")
COLUMNS = 84
BOLD, RED, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


def train(folder: Path, killed_after: Mapping[str, int]) -> list[str]:
    """Trains in `folder`, kills each process after so many steps, and returns the lines that the run printed.

    The commands that kill stand among the lines, where they were given.
    """
    command = [str(Path(sys.executable).with_name("pool")), "train", CONFIG]
    output = folder.with_suffix(".txt")
    with output.open("a", encoding="utf-8") as stream:
        run = subprocess.Popen(
            [*command, "--set", f"run.dir={folder}", "--set", f"train.steps={STEPS}"],
            cwd=ROOT,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        for role, step in killed_after.items():
            wait_for_step(run, folder, step)
            pid = find_process(run.pid, role)
            print_command(output, f"kill -9 {pid}", f"{role}, at step {step}")
            os.kill(pid, signal.SIGKILL)
        if run.wait() != 0:
            raise SystemExit(output.read_text(encoding="utf-8"))
    return output.read_text(encoding="utf-8").splitlines()


def wait_for_step(run: subprocess.Popen[bytes], folder: Path, step: int) -> None:
    """Waits until metrics.jsonl has as many lines."""
    metrics = folder / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < step:
        if run.poll() is not None:
            raise SystemExit(f"the run ended before step {step}")
        time.sleep(0.02)


def find_process(supervisor: int, role: str) -> int:
    """Returns the pid of the supervisor's child that has the role."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii")
    for pid in map(int, children.split()):
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith(role):
            return pid
    raise SystemExit(f"no process of {supervisor} is {role}")


def print_command(output: Path, command: str, comment: str) -> None:
    with output.open("a", encoding="utf-8") as stream:
        stream.write(f"{BOLD}$ {command}{PLAIN}{RED}    # {comment}{PLAIN}\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        calm, killed = Path(name) / "undisturbed", Path(name) / "killed"
        train(calm, {})
        lines = train(killed, KILLED_AFTER)
        begin, end = (
            next(i for i, line in enumerate(lines) if line.startswith(text)) for text in ("step ", "best and newest")
        )
        lines = [STEP_DETAILS.sub("", line) for line in lines[begin:end]]
        sums = subprocess.check_output(
            ["sha256sum", *(f"{run.name}/checkpoints/last/weights.safetensors" for run in (calm, killed))],
            cwd=name,
            text=True,
        ).splitlines()
        command = f"{BOLD}$ sha256sum */checkpoints/last/weights.safetensors | cut -c1-20,65-{PLAIN}"
        short_sums = [line[:20] + line[64:] for line in sums]
        draw([*lines, command, *short_sums], f"pool train {CONFIG}", Path(sys.argv[1]), name, COLUMNS)
    if len({line.split()[0] for line in sums}) != 1:
        raise SystemExit("the weights differ")


if __name__ == "__main__":
    main()
