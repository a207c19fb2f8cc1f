"""The scripts in findings/: sound bash, listed, and each says what was guessed. What they show is not part of CI."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.tools import need_program

FOLDER = ROOT / "findings"
FINDINGS = sorted(path for path in FOLDER.glob("*.sh") if path.name != "common.sh")


def test_the_table_lists_every_finding() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\]\(\1\.sh\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [path.stem for path in FINDINGS]


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_can_be_run_and_names_versions_guess_and_reason(path: Path) -> None:
    assert os.access(path, os.X_OK)
    head, _, script = path.read_text(encoding="utf-8").partition("# shellcheck source=common.sh\n")
    parts = re.findall(r"^# (Guess|Seen|Matters): \S", head, re.MULTILINE)
    assert parts == ["Guess", "Seen", "Matters"]
    assert "guess:" in script
    installs = re.findall(r"^install_(?:python|node) (.+)$", script, re.MULTILINE)
    packages = [package for line in installs for package in line.split()]
    assert packages
    assert all(re.fullmatch(r"[\w.-]+(==|@)\d[\w.]*", package) for package in packages), packages


def test_findings_are_sound_bash() -> None:
    shellcheck = need_program("shellcheck", "shellcheck")
    done = subprocess.run(
        [shellcheck, "--external-sources", *FINDINGS, FOLDER / "common.sh"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
