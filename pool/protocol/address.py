"""Where the hubs of a run are reached: abstract sockets of the kernel, one for each incarnation of a hub.

They have no file, so that none is deleted, moved away with its folder, or left behind, and no path is too long. Any
local user may connect; who is heard is decided by uid and pid (`channel`). A name is a hash with a key that only the
run's processes know, or another user could take the name of a successor before it is born.
"""

from __future__ import annotations

import hashlib
import secrets

from pool.protocol.identity import Peer

_KEY_BYTES = 32


def new_key() -> str:
    """Of a run that begins."""
    return secrets.token_hex(_KEY_BYTES)


def address(key: str, hub: Peer) -> str:
    """In the form that zmq takes."""
    who = f"{hub.role}-{hub.index}-{hub.incarnation}".encode()
    return f"ipc://@sparsepool-{hashlib.blake2b(who, key=bytes.fromhex(key), digest_size=16).hexdigest()}"
