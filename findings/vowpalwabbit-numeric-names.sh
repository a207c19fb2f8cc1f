#!/usr/bin/env bash
# vowpalwabbit 9.11.9: names of features that are digits are not hashed, so 17, 017, 262161 and 2^64 + 17 are one feature.
#
# Guess: every name is hashed; different names share a weight only by chance, one in 2^18. So the input format's page has
#   it; the exception stands with the option --hash.
# Seen: digits are a number, added to the hash of the namespace and cut to 18 bits. 262161 is 17 + 2^18.
# Matters: ids that are multiples of a power of two, as of counters that are packed with others or snowflake numbers, fall
#   on few weights. --hash all hashes them.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python vowpalwabbit==9.11.9 numpy==2.4.6
python -W ignore - <<'PYTHON'
import importlib.metadata
import sys

from vowpalwabbit import Workspace


def weights(names, options=""):
    workspace = Workspace(f"--quiet --noconstant {options}")
    found = set()
    for name in names:
        example = workspace.example(f"1 |ids {name}")
        found |= {index for index, _ in example.iter_features()}
        workspace.finish_example(example)
    workspace.finish()
    return len(found)


spellings = ["17", "017", str(17 + 2**18), str(17 + 2**64)]
packed = [str(number << 18) for number in range(1, 1001)]
seen = [weights(spellings), weights(packed), weights([f"id{name}" for name in packed]), weights(packed, "--hash all")]
print("version: vowpalwabbit", importlib.metadata.version("vowpalwabbit"))
print("guess: 4 weights for", spellings, "and nearly 1000 for 1000 multiples of 2^18")
print("seen:", seen[0], "and", seen[1], "| with a letter in front:", seen[2], "| with --hash all:", seen[3])
sys.exit(not (seen[:2] == [1, 1] and min(seen[2:]) > 990))
PYTHON
