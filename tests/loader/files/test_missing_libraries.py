"""Compressed files where the machine has no zlib or zstd: one line says so."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LINES = b"1 3:1\n0 4:1\n"
HIDING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags) {
    if (name && (strstr(name, "libz.so") || strstr(name, "libzstd.so") || strstr(name, "libbz2.so"))) return 0;
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(name, flags);
}
"""


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds no library when it opens one."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("hiding")
    (folder / "hiding.c").write_text(HIDING)
    command = [compiler, "-shared", "-fPIC", "-o", "hiding.so", "hiding.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return {**os.environ, "LD_PRELOAD": str(folder / "hiding.so")}


def loader(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loader", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("packing", "data", "library"),
    [
        ("gz", gzip.compress(LINES, mtime=0), "libz.so.1"),
        ("zst", b"\x28\xb5\x2f\xfd" + bytes(20), "libzstd.so.1"),
        ("bz2", bz2.compress(LINES), "libbz2.so.1"),
    ],
)
def test_a_compressed_file_is_refused_in_one_line(
    hiding: dict[str, str], tmp_path: Path, packing: str, data: bytes, library: str
) -> None:
    for name in (f"rows.svm.{packing}", f"positions.bf.{packing}"):
        file = tmp_path / name
        file.write_bytes(data)
        done = loader(hiding, "verify", file)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"loader: {file}: ")
        assert f"needs the library {library}, which is not on this machine" in line


def test_plain_files_are_read_as_ever(hiding: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "rows.svm"
    file.write_bytes(LINES)
    assert loader(hiding, "verify", file).stdout == f"{file}: ok, 2 entries\n"


def test_a_file_to_be_compressed_is_refused_in_one_line(hiding: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "positions.txt"
    file.write_text("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1 | 1 | 0.5\n")
    done = loader(hiding, "convert", file, "-o", tmp_path / "made.txt.zst")
    assert done.returncode == 2, done.stderr
    assert "zstd needs the library libzstd.so.1" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("made*"))
