"""`make demo` where nothing is installed: it says what it does, and what is missing before it downloads anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_the_install_says_before_each_long_step_what_it_does_and_how_much(tmp_path: Path) -> None:
    lines = make("--dry-run", "demo", f"VENV={tmp_path / 'venv'}").stdout.splitlines()
    says = [number for number, line in enumerate(lines) if line.startswith('echo "install ')]
    takes_long = [number for number, line in enumerate(lines) if "-m venv" in line or "pip install" in line]
    assert len(says) == len(takes_long) == 4
    for said, done in zip(says, takes_long, strict=True):
        assert said + 1 == done
        assert re.search(r"\d (MB|GB|minutes)", lines[said])


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("CXX=no-such-compiler", "no C++ compiler no-such-compiler: Debian's package is g++"),
        ("PYTHON=no-such-python", "no-such-python"),
        ("PYTHON={headless}", "Debian's package is python3-dev"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_downloaded(setting: str, complaint: str, tmp_path: Path) -> None:
    headless = tmp_path / "python-without-headers"
    headless.write_text(f'#!/bin/sh\ncase "$*" in *sysconfig*) echo /nowhere;; *) exec {sys.executable} "$@";; esac\n')
    headless.chmod(0o755)
    done = make("demo", f"VENV={tmp_path / 'venv'}", setting.format(headless=headless))
    assert done.returncode == 2
    assert complaint in done.stdout + done.stderr
    assert not (tmp_path / "venv").exists()
