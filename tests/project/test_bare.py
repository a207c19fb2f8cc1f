"""`make demo` where Debian's python3, python3-venv, python3-dev, g++ and make are installed and nothing else.

A root folder of their packages alone, made by debootstrap, in a mount namespace: `make bare-check`, as root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.tools import need_program

pytestmark = [pytest.mark.bare, pytest.mark.timeout(3600)]
SUITE = "bookworm"
PACKAGES = ("g++", "make", "python3", "python3-dev", "python3-venv")
ABSENT = ("cmake", "ninja", "git")
HEADERS = ("zlib.h", "zstd.h", "xxhash.h")
NOT_COPIED = (".git", ".venv", "build", "runs", "*_cache", "__pycache__")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the root folder of a Debian with PACKAGES, and with a copy of the checkout in /src."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for chroot and mount")
    program = need_program("debootstrap", "debootstrap")
    root = tmp_path_factory.mktemp("bare") / "root"
    words = [program, "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        message = f"debootstrap made no {SUITE} here: {(done.stdout + done.stderr).strip().splitlines()[-1]}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(f"needs a mirror of Debian: {message}")
    (root / "usr/include/zlib.h").unlink()  # python3-dev's packages bring it along, Ubuntu's do not
    shutil.copytree(ROOT, root / "src", ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    return root


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in /src of that root folder, with no environment but where pip finds its packages."""
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    named = [word for value in pip.values() for word in value.split() if word.startswith("/") and Path(word).exists()]
    lines = ["set -e", f"mount -t proc proc {root}/proc"]
    for path in ("/dev", "/sys", *named):
        target = Path(f"{root}{path}")
        if Path(path).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        lines.append(shlex.join(["mount", "--rbind", path, str(target)]))
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", **pip}
    lines.append(shlex.join(["exec", "chroot", str(root), "env", "-C", "/src", *command]))
    words = ["unshare", "--mount", "/bin/sh", "-c", "\n".join(lines)]
    return subprocess.run(
        words, env={**environment, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, text=True, check=False
    )


def test_without_the_headers_of_python_one_line_says_so_before_anything_is_downloaded(bare: Path) -> None:
    (headers,) = (bare / "usr/include").glob("python3.*")
    away = headers.rename(headers.with_name("away"))
    try:
        done = run(bare, "make", "--no-print-directory", "demo")
    finally:
        away.rename(headers)
    assert done.returncode == 2
    assert "no headers of python3 to compile with: Debian's package is python3-dev\n" in done.stdout
    assert not (bare / "src/.venv").exists()


def test_it_compiles_trains_exports_and_evaluates(bare: Path) -> None:
    assert not [name for name in ABSENT if (bare / "usr/bin" / name).exists()]
    assert not [name for name in HEADERS if list((bare / "usr/include").rglob(name))]
    done = run(bare, "make", "demo")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert done.stdout.splitlines()[-1].endswith("king and rook")
    assert (bare / "src/runs/demo/net.nnue").is_file()
