"""Imports a module with signals held back, so that no signal leaves the import half done."""

from __future__ import annotations

import importlib
import signal
import sys
from types import ModuleType


def import_without_signals(name: str) -> ModuleType:
    """Imports a module with all signals blocked. A handler that raises an exception in the middle would leave halves of
    numpy or torch, on which later imports fail or crash the process."""
    if name in sys.modules:
        return importlib.import_module(name)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return importlib.import_module(name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
