"""Distinguishes a user's code from this project's, Python's and libraries', and imports the user's modules from the
current folder.

Started with -m, Python searches the current folder first, so a file torch.py there would replace the library. If the
folder were searched last, a library that tries to import an optional module could still get a user's file of that name.
So the folder is not in sys.path: `remove_current_folder_from_path` removes it, as `python -P` does. After
`allow_import_from_current_folder` it is searched, last, for the module that a setting names (a task, a source, an
optimizer) and for what the user's own files import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (pathlib may not be ours yet)
_ROOT = os.path.dirname(_PACKAGE)  # noqa: PTH120
_PROJECT_FOLDERS = tuple(os.path.join(_ROOT, package, "") for package in ("loader", "pool", "sparsepool"))  # noqa: PTH118
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120


def is_project_file(file: str) -> bool:
    return file.startswith(_PROJECT_FOLDERS)


def is_installed_library_file(file: str) -> bool:
    """Returns whether a source file belongs to an installed library that does not come with Python."""
    return "/site-packages/" in file or "/dist-packages/" in file


def is_standard_library_file(file: str) -> bool:
    return file.startswith((_STANDARD_LIBRARY, "<frozen ")) and not is_installed_library_file(file)


def is_run_from_checkout() -> bool:
    """Returns whether this package was imported from the current folder, as in a checkout of the repository."""
    return _current_folder() == _ROOT


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns a command line that runs a module of this project with the same Python. The new process does not import
    from the current folder, unless this package lies there itself."""
    options = [] if is_run_from_checkout() else ["-P"]
    return [sys.executable, *options, "-m", module, *arguments]


def remove_current_folder_from_path() -> None:
    """Removes the current folder from sys.path. Must be called before anything else is imported."""
    if sys.path and sys.path[0] in ("", _current_folder()) and not sys.flags.safe_path and not is_run_from_checkout():
        del sys.path[0]


def allow_import_from_current_folder(module: str) -> None:
    """Lets Python import `module`, which a setting names, from the current folder, and whatever the user's files there
    import."""
    finder = _current_folder_finder()
    if finder is not None:
        finder.allowed_packages.add(module.partition(".")[0])


def _current_folder_finder() -> _CurrentFolderFinder | None:
    """Returns the import finder for the current folder, and installs one if there is none. Returns None if the folder
    has been deleted."""
    for finder in sys.meta_path:
        if isinstance(finder, _CurrentFolderFinder):
            return finder
    folder = _current_folder()
    if folder is None:
        return None
    new_finder = _CurrentFolderFinder(folder)
    sys.meta_path.append(new_finder)
    return new_finder


class _CurrentFolderFinder:
    """An import finder for the current folder, which Python asks when no other finder knows a module."""

    def __init__(self, folder: str) -> None:
        self.allowed_packages: set[str] = set()  # top-level names that settings use
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        is_top_level = path is None
        if is_top_level and (name in self.allowed_packages or _is_imported_by_user(sys._getframe(1))):
            return PathFinder.find_spec(name, [self._folder], target)
        return None


def _is_imported_by_user(frame: FrameType | None) -> bool:
    """Returns whether the import statement that this frame executes is in a user's file."""
    while frame is not None and is_standard_library_file(frame.f_code.co_filename):  # frames of importlib
        frame = frame.f_back
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return not (is_project_file(file) or is_installed_library_file(file))


def _current_folder() -> str | None:
    """Returns the current folder, or None if it has been deleted."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None
