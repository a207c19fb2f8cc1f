#!/usr/bin/env bash
# zstandard 0.25.0, lz4 4.4.5, pyarrow 26.0.1: what they compress has no checksum, unlike the files of zstd and lz4.
#
# Guess: a flipped bit in a .zst or .lz4 file is found. The programs zstd and lz4 write a checksum of the content by
#   default, both frame formats have a field for it, and gzip always has one.
# Seen: without one by default. Of 300 files with one bit flipped, two thirds and more decompress to other bytes
#   without an error; of those that the programs write none does.
# Matters: training data that a script compressed are not protected; ask for it (write_checksum=True,
#   content_checksum=True), or keep sums of the files.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python zstandard==0.25.0 lz4==4.4.5 pyarrow==26.0.1 numpy==2.4.6
install_debian zstd lz4
python - <<'PYTHON'
import subprocess
import sys
from pathlib import Path

import lz4.frame
import numpy as np
import pyarrow
import zstandard

rng = np.random.default_rng(0)
text = "".join(f"{a} {b}:{c:.3f}\n" for a, b, c in zip(*rng.integers(0, 999, (2, 20000)), rng.random(20000))).encode()
Path("rows").write_bytes(text)


def by_program(name, out):
    subprocess.run([name, "-q", "-f", "rows", *(["-o"] if name == "zstd" else []), out], check=True)
    return Path(out).read_bytes()


def by_pyarrow(name):
    with pyarrow.CompressedOutputStream(f"by_pyarrow.{name}", name) as stream:
        stream.write(text)
    return Path(f"by_pyarrow.{name}").read_bytes()


def unzstd(data):
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=len(text) * 2)


written = {
    "zstd": (by_program("zstd", "rows.zst"), unzstd),
    "zstandard": (zstandard.compress(text), unzstd),
    "pyarrow zstd": (by_pyarrow("zstd"), unzstd),
    "lz4 program": (by_program("lz4", "rows.lz4"), lz4.frame.decompress),
    "lz4 package": (lz4.frame.compress(text), lz4.frame.decompress),
    "pyarrow lz4": (by_pyarrow("lz4"), lz4.frame.decompress),
}
print("versions: zstandard", zstandard.__version__, "lz4", lz4.__version__, "pyarrow", pyarrow.__version__)
print("guess: no flipped bit goes unseen")
unseen = {}
for name, (data, decompress) in written.items():
    unseen[name] = 0
    for place, bit in zip(rng.integers(20, len(data) - 8, 300), rng.integers(0, 8, 300)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(bit)
        try:
            unseen[name] += decompress(bytes(flipped)) != text
        except Exception:
            pass
print("seen: other bytes without an error, of 300:", unseen)
programs = [unseen.pop("zstd"), unseen.pop("lz4 program")]
sys.exit(not (programs == [0, 0] and min(unseen.values()) > 100))
PYTHON
