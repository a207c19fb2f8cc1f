#!/usr/bin/env bash
# h5py 3.16.0 (HDF5 2.0.0): integers that a dataset can't hold become the nearest one that it can, without a word.
#
# Guess: as numpy: an assignment of -1 to an unsigned array of Python numbers raises OverflowError, an array wraps (-1
#   becomes 65535). h5py's page says that datasets are used like numpy arrays.
# Seen: -1 becomes 0, 70000 becomes 65535, 200 in an int8 dataset becomes 127; NaN becomes 0.
# Matters: lists of features padded with -1, written to an unsigned dataset, get feature 0 in every row; quantized
#   weights saturate instead of failing.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python h5py==3.16.0 numpy==2.4.6 zarr==3.1.6
python - <<'PYTHON'
import sys

import h5py
import numpy as np
import zarr

padded = np.array([17, 4, -1, -1])
with h5py.File("rows.h5", "w") as file:
    features = file.create_dataset("features", (4,), np.uint16)
    features[...] = padded
    at_once = file.create_dataset("at_once", data=padded, dtype=np.uint16)[...].tolist()
    weights = file.create_dataset("weights", (4,), np.int8)
    weights[...] = np.array([200, -200, 5, -5])
    seen = [features[...].tolist(), at_once, weights[...].tolist()]
array = zarr.create_array("rows.zarr", shape=(4,), chunks=(4,), dtype="uint16")
array[...] = padded
print("versions: h5py", h5py.__version__, "HDF5", h5py.version.hdf5_version, "numpy", np.__version__)
print("guess: as numpy,", padded.astype(np.uint16).tolist(), "or an error; zarr:", array[...].tolist())
print("seen:", *seen)
sys.exit(seen != [[17, 4, 0, 0], [17, 4, 0, 0], [127, -128, 5, -5]])
PYTHON
