#!/usr/bin/env bash
# xgboost 3.2.0 and lightgbm 4.7.0, libsvm text: a feature number is taken modulo 2^32.
#
# Guess: a number that does not fit is refused, as scikit-learn refuses it; the format names features by any whole number,
#   and neither page on text input sets a limit.
# Seen: 4294967301 (2^32 + 5) is feature 5. Nothing is printed, the matrices have 8 columns.
# Matters: hashed features of 64 bits, written as they are, train as 2^32 colliding ones.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python xgboost==3.2.0 lightgbm==4.7.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
cat >rows.svm <<'ROWS'
1 5:1
0 7:1
1 4294967301:1
0 4294967303:1
ROWS
python -W ignore - <<'PYTHON'
import sys

import lightgbm
import sklearn
import xgboost
from sklearn.datasets import load_svmlight_file

print("versions: xgboost", xgboost.__version__, "lightgbm", lightgbm.__version__, "scikit-learn", sklearn.__version__)
print("guess: all refuse 4294967301")
try:
    load_svmlight_file("rows.svm", zero_based=True)
    refused = False
except Exception as error:
    refused = True
    print("seen: scikit-learn:", error)
matrix = xgboost.DMatrix("rows.svm?format=libsvm")
features = matrix.get_data().indices.tolist()
print("seen: xgboost:", matrix.num_col(), "columns, features of the rows", features)
keep_all = {"verbose": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1, "feature_pre_filter": False}
columns = lightgbm.Dataset("rows.svm", params=keep_all).construct().num_feature()
print("seen: lightgbm:", columns, "columns")
sys.exit(not (refused and features == [5, 7, 5, 7] and columns == 8))
PYTHON
