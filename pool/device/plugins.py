"""Adds kinds of devices that torch does not know by itself, for tests."""

from __future__ import annotations

from loader.plugins.registry import import_object
from pool.errors import ConfigError


def add_devices(module: str) -> None:
    """Imports a module that adds a kind of device to torch, in a process that will use it. Raises ConfigError.

    `module`: empty to import none.
    """
    if not module:
        return
    try:
        import_object(module)
    except ValueError as error:
        raise ConfigError(f"testing.device_module: {error}") from error
