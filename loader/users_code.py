"""Where a user's own modules are found: in the current folder, and only those.

Started with -m, Python looks in the current folder first, so that a file torch.py there takes the place of the library.
`forget_current_folder` undoes that, as `python -P` does; `look_in_current_folder` puts it last, before a module that a
setting names (a task, a source of data, an optimizer) is imported.
"""

from __future__ import annotations

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (pathlib may not be ours yet)


def lies_in_current_folder() -> bool:
    """This package is found through the current folder: that is a checkout's."""
    return _current_folder() == _ROOT


def forget_current_folder() -> None:
    """Before anything else is imported."""
    if sys.path and sys.path[0] in ("", _current_folder()) and not sys.flags.safe_path and not lies_in_current_folder():
        del sys.path[0]


def look_in_current_folder() -> None:
    here = _current_folder()
    if here is not None and here not in sys.path:
        sys.path.append(here)


def _current_folder() -> str | None:
    """None if it has been deleted."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None
