"""Imports that no signal leaves half done."""

from __future__ import annotations

import importlib
import signal
import sys
from types import ModuleType


def import_whole(name: str) -> ModuleType:
    """Imports a module, holding signals back: a handler that raises within leaves halves of numpy or torch, which later
    imports fail on, or crash the process."""
    if name in sys.modules:
        return importlib.import_module(name)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return importlib.import_module(name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
