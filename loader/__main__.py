"""The command `loader`, also as `python -m loader`. Ctrl-C before the command has begun ends it silently."""

from __future__ import annotations

import sys

# late imports: modules.py first mends the path on which they are found

INTERRUPTED = 130  # nothing of ours is imported yet


def main() -> int:
    """Runs the command line and returns the exit code."""
    try:
        from loader.plugins.modules import remove_current_folder_from_path

        remove_current_folder_from_path()
        from loader.cli.main import main as run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())
