"""A small web server, by Werkzeug, which TensorBoard's server needs too: it answers in threads, to a few at a time, and
says nothing of it."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from pool.errors import UnavailableError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

MOST_CONNECTIONS = 32  # more are hung up on: whoever opens many takes no descriptors from a run
SILENCE_SECONDS = 30  # after which a connection is closed


class WebServer(ThreadedWSGIServer):
    """Answers from `serve` on. `address`, `port`: those that it has got."""

    def __init__(self, application: WSGIApplication, host: str, port: int) -> None:
        """`port`: 0 for any that is free. Raises UnavailableError if the place can't be had."""
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        with _bound(host, port) as bound:
            self.address, port = bound.getsockname()[:2]
            super().__init__(self.address, port, application, _Handler, fd=bound.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread to be had
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that has broken is nobody's business."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS

    def log(self, type: str, message: str, *args: object) -> None:
        pass


def _bound(host: str, port: int) -> socket.socket:
    """Raises UnavailableError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UnavailableError(f"{host}: {error.strerror}") from None
    except UnicodeError:  # a name with an empty or a long part
        raise UnavailableError(f"{host}: is no name of a machine") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()
    except OSError as error:
        bound.close()
        raise UnavailableError(f"{host} port {port}: {error.strerror}; port 0 is one that is free") from None
    return bound
