"""The command `pool`, also as `python -m pool`. A Ctrl-C that comes before anything else ends it without a word."""

from __future__ import annotations

import os
import sys


def main() -> None:
    if os.getcwd() not in sys.path:  # noqa: PTH109
        sys.path.insert(0, os.getcwd())  # a task's module may lie here  # noqa: PTH109
    try:
        from pool.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
