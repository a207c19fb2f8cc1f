"""The tutorial and the how-to pages work as printed: their files are written and their commands run, in one shell for
each page, in an empty folder. Only sizes differ: `pool train` takes small batches, `loader generate` few positions.

A code block of commands that is not run has a comment above it that says why.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import PAGES, blocks, script, shown_output, write_files
from tests.support.runs import elsewhere
from tests.support.tools import need_program

ENGINE = "/usr/games/stockfish"
FEWER = {r"--positions \d+": "--positions 200", r"--nodes \d+": "--nodes 20"}
SMALL = ("data.batch_size=128", "pool.threads=1")
SMALLER = (*SMALL, "model.l1=32")  # where no engine has to load the network
OUTPUT_IS_COMPARED = ("first-net",)
TIMEOUT = 280  # seconds, of a page, on a busy machine


def programs(folder: Path, changes: tuple[str, ...]) -> Path:
    """A folder for the path with `pool`, whose runs are small, `loader` and `python`."""
    folder.mkdir()
    sets = " ".join(f"--set {shlex.quote(change)}" for change in changes)
    python = shlex.quote(sys.executable)
    texts = {
        "pool": f'if [ "$1" = train ]; then set -- "$@" {sets}; fi\nexec {python} -P -m pool "$@"\n',
        "loader": f'exec {python} -P -m loader "$@"\n',
        "python": f'exec {python} "$@"\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.runs
@pytest.mark.timeout(TIMEOUT + 20)
@pytest.mark.parametrize("page", [page for page in PAGES if script(page)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_as_printed(page: Path, tmp_path: Path) -> None:
    commands = script(page)
    for pattern, replacement in FEWER.items():
        commands = re.sub(pattern, replacement, commands)
    if ENGINE in commands and not Path(ENGINE).exists():
        commands = commands.replace(ENGINE, need_program("stockfish", "stockfish"))
    keeps_its_network = "EvalFile" in commands or "configs simple" in commands
    changes = SMALL if keeps_its_network else SMALLER if "configs demo" in commands else ()
    folder = tmp_path / "work"
    folder.mkdir()
    write_files(page, folder)
    path = f"{programs(tmp_path / 'bin', changes)}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eux", "-o", "pipefail", "-c", commands],
        cwd=folder,
        env={**elsewhere(), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if page.stem in OUTPUT_IS_COMPARED:
        printed = {_words(line) for line in f"{done.stdout}\n{done.stderr}".splitlines()}
        assert not [line for line in shown_output(page) if _words(line) not in printed], printed


def _words(line: str) -> str:
    """A line without its numbers, moves, folders and width of columns; of a program its name alone."""
    line = re.sub(r"\S*python\S* (-P )?-m (?=pool|loader)", "", line)
    return " ".join(word for word in line.split() if not re.search(r"[\d/]", word))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_are_not_run_say_why(page: Path) -> None:
    notes = [block.note for block in blocks(page) if block.language == "sh"]
    assert all(not note or note.startswith(("not run: ", "files: ")) for note in notes), notes
    assert page.read_text(encoding="utf-8").count("<!-- not run") == sum(note.startswith("not run") for note in notes)
