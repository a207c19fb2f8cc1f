#!/usr/bin/env bash
# implicit 0.7.3: items that recommend() shall leave out come back at the end of its list.
#
# Guess: fewer items than asked for. The page says of filter_already_liked_items and filter_items that such items are not
#   returned.
# Seen: the list always has N entries; what was filtered follows with the score -3.4028235e+38, ordinary item numbers.
# Matters: for users with many items a metric of the top N counts what they have in the training data as hits.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python implicit==0.7.3 scipy==1.17.1 numpy==2.4.6
OPENBLAS_NUM_THREADS=1 python -W ignore - <<'PYTHON'
import sys

import implicit
import numpy as np
import scipy.sparse
from implicit.als import AlternatingLeastSquares

likes = scipy.sparse.csr_matrix((np.random.default_rng(0).random((20, 10)) < 0.4).astype(np.float32))
model = AlternatingLeastSquares(factors=4, iterations=3, random_state=1, use_gpu=False)
model.fit(likes, show_progress=False)
liked = set(likes[0].indices.tolist())
items, scores = model.recommend(0, likes[0], N=10, filter_already_liked_items=True)
print("version: implicit", implicit.__version__)
print("guess:", 10 - len(liked), "items, none of", sorted(liked))
print("seen:", len(items), "items:", items.tolist(), "with scores", scores.tolist())
left_out = set(items[10 - len(liked) :].tolist())
sys.exit(not (liked and len(items) == 10 and left_out == liked and scores[-1] == np.finfo(np.float32).min))
PYTHON
