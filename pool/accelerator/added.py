"""Kinds of devices that torch does not know by itself."""

from __future__ import annotations

import importlib

from loader.plugins.modules import look_in_current_folder
from loader.plugins.words import told
from pool.errors import ConfigError


def add_devices(module: str) -> None:
    """Imports a module that adds a kind of device to torch, in a process that will use it; empty: none. Raises
    ConfigError."""
    if not module:
        return
    look_in_current_folder(module)
    try:
        importlib.import_module(module)
    except Exception as error:
        raise ConfigError(f"testing.device_module: {module}: {told(error)}") from error
