"""Serves the page over HTTP. It answers two addresses from memory, and no file of the machine can be requested by name.

Other users of the machine must not read the answers, nor may other sites through the user's browser. So every request
needs the token of the address that `pool watch` prints. A request that calls this server by a foreign host name is
refused (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import Forbidden, HTTPException, MethodNotAllowed, MisdirectedRequest, NotFound
from werkzeug.wrappers import Request, Response

from pool.protocol.tcp_endpoint import bracketed
from pool.telemetry.web import WebServer
from pool.watch.contents import Watch
from pool.watch.page import as_json, page_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LOOK_SECONDS = 1.0  # shortest time between two reads of the folders, however many browsers ask
_TOKEN = "token"
_HOST = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\])(?::\d+)?", re.ASCII)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class PageServer:
    """An HTTP server for the page. `url` is the address that the user opens, with the token."""

    def __init__(
        self, watch: Watch, host: str, port: int, *, allowed_names: Sequence[str] = (), token: str | None = None
    ) -> None:
        """Opens the address. `port` 0 takes any free one. `allowed_names` are further host names under which a proxy
        may show the page. Without a `token` a new one is made. Raises UnavailableError if the address can't be
        opened."""
        self._watch = watch
        self._lock = threading.Lock()
        self._looked = -LOOK_SECONDS
        self._contents: Mapping[str, Any] = {}
        self._server = WebServer(self._answer, host, port)
        port = self._server.port
        names = (host, "localhost", socket.gethostname(), socket.getfqdn(), *allowed_names)
        self._names = {name.lower() for name in names}
        self._token = secrets.token_urlsafe(24) if token is None else token
        self._cookie = f"sparsepool-{port}"  # browsers send a machine's cookies to all of its ports
        self.url = f"http://{bracketed(host)}:{port}/?{_TOKEN}={self._token}"

    def serve(self) -> None:
        """Answers requests until `stop` is called or Ctrl-C is pressed."""
        self._server.serve_forever()

    def stop(self) -> None:
        """Ends `serve`. To be called from another thread."""
        self._server.shutdown()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answers one request (WSGI), with the security headers."""
        request = Request(environ)
        try:
            self._check(request)
            response = self._response(request)
        except HTTPException as error:
            response = Response(f"{error.description}\n", error.code)
        response.headers.update(_HEADERS)
        return response(environ, start_response)

    def _check(self, request: Request) -> None:
        """Checks the method, host name and token of a request. Raises HTTPException if it is not from the page or its
        user."""
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(("GET", "HEAD"), "only GET is answered")
        if not self._is_own_name(request.environ.get("HTTP_HOST", "")):
            raise MisdirectedRequest(
                "this server has another name: open the address that pool watch has printed, or start it with "
                "--allow-host and the name that you have opened"
            )
        given = request.args.get(_TOKEN) or request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            raise Forbidden("the token is missing or wrong: open the address that pool watch has printed")

    def _response(self, request: Request) -> Response:
        """Returns the page or its contents. An address with the token is redirected to one without, and the token moves
        to a cookie. Raises NotFound for any other path."""
        if request.path == "/" and _TOKEN in request.args:  # browsers keep addresses in their history
            # Location and cookie path are relative to the opened address: a proxy may show the page at any path.
            response = Response("", 303, {"Location": "./"})
            response.set_cookie(self._cookie, self._token, path=None, httponly=True, samesite="Strict")
            return response
        if request.path == "/":
            return Response(page_of(self._look(), live=True), mimetype="text/html")
        if request.path == "/contents.json":
            response = Response(as_json(self._look()), mimetype="application/json")
            response.add_etag()
            return response.make_conditional(request)
        raise NotFound("there is nothing here; the page is at /")

    def _look(self) -> Mapping[str, Any]:
        """Returns the contents, read again if they are older than LOOK_SECONDS."""
        with self._lock:
            if (now := time.monotonic()) >= self._looked + LOOK_SECONDS:
                self._looked = now
                self._contents = self._watch.look()
            return self._contents

    def _is_own_name(self, host: str) -> bool:
        """Returns whether the host name of a request is one of this server's, or an IP address, which no other site can
        have as its name."""
        if (match := _HOST.fullmatch(host)) is None:
            return False
        name = match[1].strip("[]").lower()
        return name in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
