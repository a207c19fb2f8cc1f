"""What scikit-learn 1.9's load_svmlight_file (dtype float32, zero_based) makes of the files of odd_svmlight.py."""

from __future__ import annotations

from math import inf, nan

Row = tuple[float, dict[int, float]]  # label, values by feature number

READ: dict[str, list[Row]] = {
    "plain": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "CRLF": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "no final newline": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "empty lines": [(1.0, {0: 0.5, 3: 2.0}), (1.0, {0: 0.5, 3: 2.0})],
    "only comments": [],
    "empty file": [],
    "comments behind rows": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "comment behind a label": [(1.0, {})],
    "tabs, vertical tabs, form feeds": [(1.0, {0: 0.5, 3: 2.0})],
    "qid": [(1.0, {0: 0.5}), (0.0, {1: 1.0})],
    "qid that is no number": [(1.0, {0: 0.5})],
    "labels with signs": [(1.0, {0: 1.0}), (-1.0, {0: 1.0}), (-0.5, {0: 1.0})],
    "label alone": [(1.0, {}), (0.0, {})],
    "label nan": [(nan, {0: 1.0})],
    "ways to write a number": [(1.0, {0: 0.5, 1: 5.0, 2: 100.0, 3: 100.0, 4: -0.009999999776482582, 5: 7.0, 6: 0.25})],
    "1e-400": [(1.0, {0: 0.0, 1: -0.0})],
    "smallest numbers": [
        (1.0, {0: 1.401298464324817e-45, 1: 1.401298464324817e-45, 2: 0.0, 3: 1.1754943508222875e-38})
    ],
    "largest number": [(1.0, {0: 3.4028234663852886e38, 1: 3.4028234663852886e38})],
    "1e39": [(1.0, {0: inf})],
    "inf": [(1.0, {0: inf})],
    "nan": [(1.0, {0: 0.5, 1: nan})],
    "20 digits in a value": [(1.0, {0: 1.2345679395506094e19, 1: 0.12345679104328156})],
    "100 digits in a value": [(1.0, {0: 0.12345679104328156})],
    "between two floats": [(1.0, {0: 1.000000238418579, 1: 1.000000238418579, 2: 1.000000238418579})],
    "underscores": [(1.0, {0: 1000.0})],
    "explicit zero": [(1.0, {0: 0.0, 3: -0.0})],
    "number out of range": [(1.0, {0: 0.5, 1000000: 1.0})],
    "number with leading zeros": [(1.0, {0: 0.5, 3: 2.0})],
    "number with a sign": [(1.0, {3: 1.0})],
    "gzip": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "gzip with a full header": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "gzip members": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0}), (1.0, {2: 1.0})],
    "gzip members that part a line": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "gzip and zeros": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0})],
    "gzip members with zeros between them": [(1.0, {0: 0.5, 3: 2.0}), (0.0, {1: 1.0}), (1.0, {2: 1.0})],
    "a line longer than a block": [
        (1.0, {0: 0.5, 3: 2.0}),
        (1.0, dict.fromkeys(range(300_000), 1.0)),
        (1.0, {0: 0.5, 3: 2.0}),
    ],
}
REFUSED = {  # with a ValueError, OverflowError, EOFError or BadGzipFile
    "CR alone",
    "qid behind a feature",
    "no label",
    "two labels",
    "list of labels",
    "hexadecimal",
    "an exponent without digits",
    "negative number",
    "20 digits in a feature number",
    "numbers out of order",
    "number twice",
    "no colon",
    "no value",
    "blank behind the colon",
    "two colons",
    "NUL",
    "text",
    "gzip and rubbish",
    "gzip cut in its data",
    "gzip cut in its trailer",
    "gzip cut in its header",
    "gzip with a wrong checksum",
}
