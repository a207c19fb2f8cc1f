#!/usr/bin/env bash
# numpy 2.4.6: seeds that end in zeros are the seed without them, and big ones are lists: 7, [7, 0] and [7, 0, 0] are one.
#
# Guess: default_rng([seed, worker, epoch]) is never the stream of default_rng(seed): the page on parallel generation
#   recommends lists of integers in place of sums of seed and worker, so that streams do not collide.
# Seen: default_rng(7), ([7, 0]) and ([7, 0, 0]) give the same numbers, and so do [1, 5] and 1 + 5 * 2^32. From the fifth
#   word on a zero counts, and spawn() is not affected.
# Matters: what is drawn with the run's seed repeats what worker 0 of epoch 0 draws with [seed, 0, 0].
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python numpy==2.4.6
python - <<'PYTHON'
import sys

import numpy as np


def first(seed):
    return np.random.default_rng(seed).integers(1 << 62)


equal = [(7, [7, 0]), (7, [7, 0, 0, 0]), ([1, 5], 1 + 5 * 2**32)]
other = [(7, [7, 0, 0, 0, 0]), (7, np.random.SeedSequence(7).spawn(1)[0]), ([7, 1], [7, 0])]
print("version: numpy", np.__version__)
print("guess: all pairs differ")
print("seen: the same:", [pair for pair in equal if first(pair[0]) == first(pair[1])])
print("seen: not the same:", [pair for pair in other if first(pair[0]) != first(pair[1])])
sys.exit(not all(first(a) == first(b) for a, b in equal) or any(first(a) == first(b) for a, b in other))
PYTHON
