#!/usr/bin/env bash
# orjson 3.13.0: integers beyond 64 bits are read as floats, so a saved state of a random generator is another one.
#
# Guess: as json, ujson and msgspec: exact, or an error, since orjson refuses to write such integers. JSON has numbers of
#   any length, and orjson's page promises correctness and strictness.
# Seen: the 128-bit state of numpy's PCG64, written by json, is read as 3.04e+38 by orjson. numpy takes the float for a
#   state without a word and draws other numbers.
# Matters: a run that keeps its generators in a JSON checkpoint goes on with other shuffles when someone speeds up the reader.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python orjson==3.13.0 ujson==6.1.0 msgspec==0.23.0 numpy==2.4.6
python - <<'PYTHON'
import json
import sys

import msgspec
import numpy as np
import orjson
import ujson

saved = json.dumps(np.random.default_rng(5).bit_generator.state)
right = np.random.default_rng(5).integers(1 << 62)
print("versions: orjson", orjson.__version__, "numpy", np.__version__)
print("guess: every reader restores the generator, or raises")
seen = {}
for name, loads in (("json", json.loads), ("ujson", ujson.loads), ("msgspec", msgspec.json.decode), ("orjson", orjson.loads)):
    state = loads(saved)
    generator = np.random.PCG64()
    generator.state = state
    seen[name] = bool(np.random.Generator(generator).integers(1 << 62) == right)
print("seen: state as read by orjson:", state["state"]["state"])
print("seen: the numbers go on as they should:", seen)
sys.exit(seen != {"json": True, "ujson": True, "msgspec": True, "orjson": False})
PYTHON
