"""Runs the command `pool`, also as `python -m pool`. A Ctrl-C during the imports ends the command silently."""

from __future__ import annotations

import gc
import os
import sys

# late imports: modules.py first mends the path on which they are found

INTERRUPTED = 130  # the exit code's constant is not imported yet


def main() -> int:
    """Runs the command line. Returns the exit code."""
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
    """Removes the current folder from the module path, in which a loader.py of the user's may lie.

    The package `loader` is found beside this package instead.
    """
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    from loader.plugins.modules import remove_current_folder_from_path

    del sys.path[0]
    remove_current_folder_from_path()


if __name__ == "__main__":
    sys.exit(main())
