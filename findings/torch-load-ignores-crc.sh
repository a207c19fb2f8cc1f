#!/usr/bin/env bash
# torch 2.13.0: torch.load does not compare a checkpoint with the checksums that torch.save has put into it.
#
# Guess: a flipped bit in a tensor is an error. A checkpoint is a zip archive with a CRC-32 of each entry, torch computes
#   them by default and has a setting to save that time (torch.serialization.set_crc32_options, whose page says that files
#   without them load as well), and numpy.load refuses a damaged .npz.
# Seen: the weights load with another number, with mmap and without; zipfile.testzip() names the entry at once.
# Matters: a damaged disk or a cut transfer becomes other weights in silence. Check with zipfile before loading.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python torch==2.13.0 numpy==2.4.6
python -W ignore - <<'PYTHON'
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

torch.save({"weights": torch.arange(1000, dtype=torch.float32)}, "good.pt")
data = bytearray(Path("good.pt").read_bytes())
place = data.index(np.arange(1000, dtype=np.float32).tobytes()) + 4 * 500
data[place + 2] ^= 0x40
Path("flipped.pt").write_bytes(data)
print("version: torch", torch.__version__)
print("guess: torch.load raises")
seen = [torch.load("flipped.pt", mmap=mmap)["weights"][500].item() for mmap in (False, True)]
named = zipfile.ZipFile("flipped.pt").testzip()
print("seen: weight 500 is", *seen, "and zipfile names", named)
sys.exit(not (seen == [372.0, 372.0] and named is not None))
PYTHON
