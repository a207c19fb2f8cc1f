#!/usr/bin/env bash
# xgboost 3.2.0, lightgbm 4.7.0: of a feature that a sparse row names twice only one entry counts, in training and prediction.
#
# Guess: both are added, as in scipy, whose pages define duplicates of CSR as a sum, and as linear models of scikit-learn and
#   embedding layers count them; or such rows are refused.
# Seen: of rows with the value 1 and rows with 1 + 1 neither tells the two apart; after sum_duplicates() both do.
#   scikit-learn's StandardScaler gives a negative variance.
# Matters: rows that are built as (indices, indptr) from events, one entry an event, lose their counts in silence.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python xgboost==3.2.0 lightgbm==4.7.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
python -W ignore - <<'PYTHON'
import sys

import lightgbm
import numpy as np
import scipy.sparse
import xgboost
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

twice = np.random.default_rng(0).random(400) < 0.5
events = np.where(twice, 2, 1)
starts = np.concatenate([[0], np.cumsum(events)])
rows = scipy.sparse.csr_matrix((np.ones(events.sum(), np.float32), np.zeros(events.sum(), np.int32), starts), (400, 4))
summed = rows.copy()
summed.sum_duplicates()
labels = twice.astype(np.float32)


def errors(data):
    trees = xgboost.train({"max_depth": 2, "eta": 1.0}, xgboost.DMatrix(data, labels), 3)
    leaves = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5, "learning_rate": 1.0}, lightgbm.Dataset(data, labels), 3)
    line = LogisticRegression(C=1e4).fit(data, labels)
    found = trees.predict(xgboost.DMatrix(data)), leaves.predict(data), line.predict(data)
    return [round(float(np.abs(one - labels).mean()), 3) for one in found]


variance = float(StandardScaler(with_mean=False).fit(rows).var_[0])
seen = {"as they are": errors(rows), "summed": errors(summed)}
print("versions: xgboost", xgboost.__version__, "lightgbm", lightgbm.__version__)
print("guess: no errors in both; a variance of", round(float(summed.toarray()[:, 0].var()), 3))
print("seen: mean errors of xgboost, lightgbm, a linear model:", seen, "variance", round(variance, 3))
trees, line = seen["as they are"][:2], seen["as they are"][2]
sys.exit(not (min(trees) > 0.3 and line == 0 and max(seen["summed"]) < 0.01 and variance < 0))
PYTHON
