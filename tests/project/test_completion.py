"""Tab completion of both programs: it knows commands, options and configs, and is quick to answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

CODE = """
import sys
from {program}.__main__ import main
sys.argv[0] = "{program}"
try:
    sys.exit(main())
finally:
    print(*(name for name in ("torch", "chess", "tensorboard") if name in sys.modules), file=sys.stderr)
"""


def complete(program: str, line: str) -> set[str]:
    """Returns what bash is offered for the last word of a command line."""
    words = line.split(" ")
    environment = {
        f"_{program.upper()}_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(program=program)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == "\n", "nothing heavy is imported"
    return set(done.stdout.split())


COMMANDS = {
    "train",
    "export",
    "eval",
    "inspect",
    "convert",
    "predict",
    "sweep",
    "find-lr",
    "demo",
    "runs",
    "status",
    "watch",
    "clean",
    "machines",
    "recipe",
    "check",
    "validate",
    "rescore",
    "settings",
    "configs",
}


@pytest.mark.parametrize(
    ("program", "line", "offered"),
    [
        ("pool", "pool ", COMMANDS),
        ("pool", "pool ex", {"export"}),
        ("pool", "pool configs stockfish", {"stockfish-15.1", "stockfish-19", "stockfish-2022", "stockfish-2026"}),
        ("pool", "pool train x.toml --res", {"--resume"}),
        ("loader", "loader ver", {"verify"}),
    ],
)
def test_the_shell_is_offered_what_can_follow(program: str, line: str, offered: set[str]) -> None:
    assert complete(program, line) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", ["pool", "loader"])
def test_the_programs_show_a_script_for_the_shell(program: str, shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", program, "--show-completion", shell],
        cwd=ROOT,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"_{program.upper()}_COMPLETE=complete_{shell}" in done.stdout, done.stderr
