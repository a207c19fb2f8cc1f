#!/usr/bin/env bash
# zstandard 0.25.0, lz4 4.4.5, pyarrow 26.0.1: what they compress has no checksum, unlike the files of zstd and lz4.
#
# Guess: a .zst or .lz4 file says whether its content is whole. The programs zstd and lz4 write a checksum of the content
#   by default, both frame formats have a field for it, and gzip always has one.
# Seen: the frames of all three packages have none by default; those of the programs have one.
# Matters: training data that a script compressed are not protected; ask for it (write_checksum=True,
#   content_checksum=True), or keep sums of the files.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python zstandard==0.25.0 lz4==4.4.5 pyarrow==26.0.1
install_debian zstd lz4
python - <<'PYTHON'
import subprocess
import sys
from pathlib import Path

import lz4.frame
import pyarrow
import zstandard

text = b"17 user:3 item:5\n" * 1000
Path("rows").write_bytes(text)


def by_program(name, out):
    subprocess.run([name, "-q", "-f", "rows", *(["-o"] if name == "zstd" else []), out], check=True)
    return Path(out).read_bytes()


def by_pyarrow(name):
    with pyarrow.CompressedOutputStream(f"by_pyarrow.{name}", name) as stream:
        stream.write(text)
    return Path(f"by_pyarrow.{name}").read_bytes()


def of_zstd(frame):
    return zstandard.get_frame_parameters(frame).has_checksum


def of_lz4(frame):
    return lz4.frame.get_frame_info(frame)["content_checksum"]


seen = {
    "program zstd": of_zstd(by_program("zstd", "rows.zst")),
    "program lz4": of_lz4(by_program("lz4", "rows.lz4")),
    "package zstandard": of_zstd(zstandard.compress(text)),
    "package lz4": of_lz4(lz4.frame.compress(text)),
    "pyarrow, zstd": of_zstd(by_pyarrow("zstd")),
    "pyarrow, lz4": of_lz4(by_pyarrow("lz4")),
}
print("versions: zstandard", zstandard.__version__, "lz4", lz4.__version__, "pyarrow", pyarrow.__version__)
print("guess: all have a checksum of the content")
print("seen: a checksum in the frame of:", seen)
sys.exit(seen != {name: name.startswith("program") for name in seen})
PYTHON
