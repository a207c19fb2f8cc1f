#!/usr/bin/env bash
# scikit-learn 1.9.1: FeatureHasher's column is not MurmurHash3 modulo the number of columns.
#
# Guess: murmurhash3_32(text) % n_features, with the hash as an unsigned or (Python's %) a signed number; the page names the
#   function, says that its sign decides about the value's, and that n_features should be a power of two since a modulo
#   turns the hash into a column.
# Seen: it is the absolute value of the signed hash modulo n. Of hashes below 0, half of all, column and guess differ.
# Matters: a program that serves such a model with its own hash, in C++ or JavaScript, looks up
#   another weight for half of the features.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
python - <<'PYTHON'
import sys

import numpy as np
import sklearn
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

N = 1 << 20
texts = [f"user={number}" for number in range(2000)]
columns = FeatureHasher(N, input_type="string", alternate_sign=False).transform([[text] for text in texts]).indices
signed = np.array([murmurhash3_32(text, seed=0) for text in texts], np.int64)
seen = {
    "unsigned hash % n": float((columns == np.where(signed < 0, signed + (1 << 32), signed) % N).mean()),
    "signed hash % n": float((columns == signed % N).mean()),
    "abs(signed hash) % n": float((columns == np.abs(signed) % N).mean()),
}
print("version: scikit-learn", sklearn.__version__)
print("guess: one of the first two is 1")
print("seen: share of equal columns:", seen)
sys.exit(not (list(seen.values())[2] == 1 and max(list(seen.values())[:2]) < 0.6))
PYTHON
