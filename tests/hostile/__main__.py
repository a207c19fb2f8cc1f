"""Attacks drawn at random until the time is over: `python -m tests.hostile --minutes 60`.

A finding is printed with the command that repeats it; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.hostile.attack import find


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first attack; the next ones count up")
    parser.add_argument("--only", default="", help="attacks whose name begins so")
    parser.add_argument("--count", type=int, default=0, help="end after so many attacks; 0: by time alone")
    arguments = parser.parse_args()
    attacks = {name: attack for name, attack in find().items() if name.startswith(arguments.only)}
    if not attacks:
        parser.error(f"no attack begins with {arguments.only!r}; there are {', '.join(find())}")
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    done: Counter[str] = Counter()
    findings = 0
    end = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < end and not 0 < arguments.count <= done.total():
        name = min(attacks, key=lambda each: (done[each], each))
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            try:
                attacks[name](random.Random(seed), Path(folder))
            except Exception:
                findings += 1
                print(f"FINDING: python -m tests.hostile --only {name} --seed {seed} --count 1")
                traceback.print_exc(file=sys.stdout)
        done[name] += 1
        seed += 1
        print(f"{done.total()} attacks, {findings} findings; last: {name}", flush=True)
    for name, count in sorted(done.items()):
        print(f"{count:6d}  {name}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
