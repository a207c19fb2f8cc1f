"""Draws a real run on a terminal: `python docs/pictures/progress.py PICTURE.svg [CONFIG.toml] [--set KEY=VALUE]...`.

Starts `pool train` on a terminal of its own, takes the lines that stay and the progress line as it was at a step in the
middle, and lets rich draw them. Without a config it is the bundled one, in a temporary folder.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent.parent
COLUMNS, ROWS = 152, 40
PROGRESS = re.compile(r"step \d+/\d+ ")
FONT_FACE = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)
CONTROL = re.compile(r"\x1b\[\??\d*[A-KSThl]")  # what moves the cursor or erases; colours end in m and stay


def on_terminal(command: Sequence[str], cwd: Path) -> str:
    """All that the command writes to its terminal."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    written = bytearray()
    while True:
        try:
            data = os.read(leader, 1 << 16)
        except OSError:  # the last process has closed its end
            break
        if not data:
            break
        written += data
    if process.wait() != 0:
        raise SystemExit(written.decode(errors="replace"))
    return written.decode(errors="replace")


def frames(written: str) -> list[str]:
    """Each line in the order in which it was drawn, with its colours."""
    lines = re.split(r"[\r\n]+", CONTROL.sub("\n", written))
    return [line.rstrip() for line in lines if any(char.isalpha() for char in Text.from_ansi(line).plain)]


def shown(lines: Sequence[str]) -> list[str]:
    """The lines that stay, and of the progress line one state in the middle and the last one."""
    moving = [number for number, line in enumerate(lines) if PROGRESS.search(Text.from_ansi(line).plain)]
    middle, last = moving[len(moving) // 2], moving[-1]
    return [*lines[: moving[0]], lines[middle], "", *lines[last:]]


def draw(lines: Sequence[str], title: str, picture: Path, hidden: str, columns: int = COLUMNS) -> None:
    """`hidden`: a path of this machine that is shown as the home folder."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line.replace(hidden, "~/nets")), soft_wrap=False)
    drawn = console.export_svg(title=title, unique_id="progress")
    picture.write_text(FONT_FACE.sub("", drawn), encoding="utf-8")  # no font from the network: the reader's own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    pool = [str(Path(sys.executable).with_name("pool"))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = arguments.config.resolve() if arguments.config else folder / "first.toml"
        if arguments.config is None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            config.write_bytes(subprocess.check_output([*pool, "configs", "demo"], env=environment))
        changes = [word for change in ("run.dir=runs/first", *arguments.set) for word in ("--set", change)]
        written = on_terminal([*pool, "train", str(config), *changes], folder)
        title = f"pool train {config.name} {' '.join(changes)}"
        draw(shown(frames(written)), title, arguments.picture, name)


if __name__ == "__main__":
    main()
