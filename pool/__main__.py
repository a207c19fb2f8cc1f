"""The command `pool`, also as `python -m pool`. A Ctrl-C that comes before anything else ends it without a word."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pool.errors import EXIT_INTERRUPTED


def main() -> None:
    with contextlib.suppress(FileNotFoundError):  # it is gone; whoever needs it says so
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)  # a task's module may lie there
    try:
        from pool.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    run()


if __name__ == "__main__":
    main()
