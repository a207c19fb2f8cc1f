"""Svmlight files that are odd in one way each."""

from __future__ import annotations

import gzip
import zlib

LINE = b"1 0:0.5 3:2\n"
TWO = LINE + b"0 1:1\n"
LONG = b" ".join([b"1", *(b"%d:1" % number for number in range(300_000))]) + b"\n"  # a line of more than two blocks


def _with_wrong_sum(data: bytes) -> bytes:
    packed = bytearray(gzip.compress(data, mtime=0))
    packed[-8] ^= 1
    return bytes(packed)


def _with_every_part(data: bytes) -> bytes:
    """A gzip member whose header has an extra field, a name, a comment and a checksum."""
    head = b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03" + b"\x04\x00abcd" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    return head + gzip.compress(data, mtime=0)[10:]


PACKED = gzip.compress(TWO, mtime=0)
FILES: dict[str, bytes] = {
    "plain": TWO,
    "CRLF": TWO.replace(b"\n", b"\r\n"),
    "CR alone": TWO.replace(b"\n", b"\r"),
    "no final newline": TWO[:-1],
    "empty lines": b"\n\n" + LINE + b"\n  \n\t\r\n" + LINE + b"\n",
    "only comments": b"# one\n  # two\n#",
    "empty file": b"",
    "comments behind rows": b"1 0:0.5 3:2# a:b 9:9\n0 1:1 # \x00 \xff\n",
    "comment behind a label": b"1# none\n",
    "tabs, vertical tabs, form feeds": b"\t1\t 0:0.5\v3:2 \f\n",
    "qid": b"1 qid:7 0:0.5\n0 qid:8 1:1\n",
    "qid behind a feature": b"1 0:0.5 qid:7\n",
    "qid that is no number": b"1 qid:x 0:0.5\n",
    "labels with signs": b"+1 0:1\n-1 0:1\n-0.5 0:1\n",
    "label alone": b"1\n0 \n",
    "no label": b"0:1 1:1\n",
    "two labels": b"1 2 3:1\n",
    "list of labels": b"1,2 3:1\n",
    "label nan": b"nan 0:1\n",
    "ways to write a number": b"1. 0:.5 1:5. 2:1E2 3:1e+2 4:-1e-2 5:+7 6:00.250\n",
    "1e-400": b"1 0:1e-400 1:-1e-50\n",
    "smallest numbers": b"1 0:1e-45 1:1.4e-45 2:0.7e-45 3:1.17549435e-38\n",
    "largest number": b"1 0:3.4028234e38 1:3.4028235677e38\n",
    "1e39": b"1 0:1e39\n",
    "inf": b"1 0:inf\n",
    "nan": b"1 0:0.5 1:nan\n",
    "20 digits in a value": b"1 0:12345678901234567890 1:0.12345678901234567890\n",
    "100 digits in a value": b"1 0:0." + b"123456789" * 11 + b"1\n",
    "between two floats": b"1 0:1.00000017881393432617187499 1:1.000000178813934326171875 "
    b"2:1.00000017881393432617187501\n",
    "hexadecimal": b"1 0:0x10\n",
    "underscores": b"1 0:1_000\n",
    "an exponent without digits": b"1 0:1e\n",
    "explicit zero": b"1 0:0 3:-0\n",
    "number out of range": b"1 0:0.5 1000000:1\n",
    "number with leading zeros": b"1 000:0.5 003:2\n",
    "number with a sign": b"1 +3:1\n",
    "negative number": b"1 -3:1\n",
    "20 digits in a feature number": b"1 12345678901234567890:1\n",
    "numbers out of order": TWO + b"1 3:1 0:1\n",
    "number twice": b"1 3:1 3:1\n",
    "no colon": b"1 0:1 3\n",
    "no value": b"1 0:1 3:\n",
    "blank behind the colon": b"1 0: 1\n",
    "two colons": b"1 0:1:1\n",
    "NUL": b"1 0:1\x00 3:1\n",
    "text": b"label,feature\n1,2\n",
    "a line longer than a block": LINE + LONG + LINE,
    "gzip": PACKED,
    "gzip with a full header": _with_every_part(TWO),
    "gzip members": PACKED + gzip.compress(b"1 2:1\n", mtime=0),
    "gzip members that part a line": gzip.compress(TWO[:5], mtime=0) + gzip.compress(TWO[5:], mtime=0),
    "gzip and zeros": PACKED + bytes(100),
    "gzip members with zeros between them": PACKED + bytes(100) + gzip.compress(b"1 2:1\n", mtime=0),
    "gzip and rubbish": PACKED + b"rubbish",
    "gzip cut in its data": PACKED[:-12],
    "gzip cut in its trailer": PACKED[:-4],
    "gzip cut in its header": PACKED[:6],
    "gzip with a wrong checksum": _with_wrong_sum(TWO),
}
