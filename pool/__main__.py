"""The command `pool`, also as `python -m pool`. A Ctrl-C that comes before anything else ends it without a word."""

from __future__ import annotations

import gc
import os
import sys

# late imports: modules.py first mends the path on which they are found

INTERRUPTED = 130  # nothing of ours is imported yet


def main() -> int:
    """Runs the command line; gives back the exit code."""
    try:
        gc.disable()  # until all is imported; what is then there stays, and is never looked at
        _find_our_own_only()
        from pool.commands.main import main as run

        gc.freeze()
        gc.enable()
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


def _find_our_own_only() -> None:
    """The current folder may hold a loader.py: the package lies beside this one."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    from loader.plugins.modules import forget_current_folder

    del sys.path[0]
    forget_current_folder()


if __name__ == "__main__":
    sys.exit(main())
