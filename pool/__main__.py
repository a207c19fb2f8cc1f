"""The command `pool`, also as `python -m pool`. A Ctrl-C that comes before anything else ends it without a word."""

from __future__ import annotations

import os
import sys

from pool.errors import EXIT_INTERRUPTED


def main() -> None:
    try:
        _find_our_own_only()
        from pool.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    run()


def _find_our_own_only() -> None:
    """The current folder may hold a loader.py: the package lies beside this one."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    from loader.users_code import forget_current_folder

    del sys.path[0]
    forget_current_folder()


if __name__ == "__main__":
    main()
