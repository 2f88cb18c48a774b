"""`tcexplore serve FILE`: the app in a browser, such as through an SSH tunnel to a GPU machine."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shlex
import signal
import socket
import sys
from typing import TYPE_CHECKING

from tcexplore.cli.file_argument import BadFileError, check_path, model_pythons, split
from tcexplore.cli.options import Request
from tcexplore.cli.terminal import refuse
from tcexplore.model_python import OWN_PYTHON
from tcexplore.processes import Deadline, adopt_orphans, has_descendants, kill_descendants

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware

HOST = "127.0.0.1"
"""The only address that the server listens on."""

CLOSE_S = 0.5
"""Seconds for open pages to close when the server ends."""

POLL_S = 0.02
"""Seconds between two looks for apps that have not ended."""

COOKIE = "tcexplore_token"

_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def serve(request: Request) -> int:
    """Serve the app until Ctrl-C; return the exit status. Each open page runs a separate app."""
    try:
        path = split(request.target)[0]
        check_path(path)
        model_pythons(request, path)  # asks here, since the apps have no terminal to ask on
    except BadFileError as error:
        return refuse(error.sentence)
    try:
        import textual_serve  # noqa: F401
    except ImportError:
        return refuse("`tcexplore serve` needs textual-serve. Try: python -m pip install 'tcexplore[serve]'")
    try:
        listener = _listen(request.port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "ports are numbered from 0 to 65535"
        return refuse(f"port {request.port} of {HOST} cannot be used: {reason}. Try: --port 0")
    # Not `python -m`: modules in the working folder would replace those of Python.
    command = shlex.join(OWN_PYTHON.command("tcexplore.__main__", *request.app_arguments))
    asyncio.run(_serve(command, os.path.basename(request.target), listener))
    return 0


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError):
        listener.close()
        raise
    return listener


async def _serve(command: str, title: str, listener: socket.socket) -> None:
    from aiohttp import web
    from textual_serve.server import Server

    token = secrets.token_urlsafe(24)
    server = Server(command, title=title)
    application = await server._make_app()
    application.middlewares.append(_access(token, server))
    application.on_startup.clear()  # it would print a banner with the command
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_S)
    await runner.setup()
    end = Deadline()
    try:
        await web.SockSite(runner, listener).start()
        _announce(listener.getsockname()[1], token)
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
    finally:
        # Pages may be open, and their apps stopped or busy: neither is waited for longer. An app that is killed may
        # leave a process that was stopped before it could follow its parent.
        adopt_orphans()
        end.begin(0)
        kill_descendants(number=signal.SIGTERM)
        await runner.cleanup()
        while has_descendants():  # noqa: ASYNC110  until the deadline; the pages' apps are textual-serve's
            await asyncio.sleep(POLL_S)


def _announce(port: int, token: str) -> None:
    sys.stdout.write(
        f"Open http://{HOST}:{port}/?token={token}\n"
        f"From another machine, first run: ssh -L {port}:{HOST}:{port} {socket.gethostname()}\n"
        "Ctrl-C ends it.\n"
    )
    sys.stdout.flush()


_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws://localhost:* ws://127.0.0.1:*"
)
"""What the page may load: nothing of another host. textual-serve's page names a font of one."""


def _access(token: str, server: object) -> Middleware:
    """Return a middleware that requires a local host name and the token, first in the address, then in a cookie.

    A page of another site cannot use the cookie: it is sent only to pages of the same site, and a request that names
    another host or origin is refused.
    """
    from aiohttp import web

    @web.middleware
    async def require_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        local = request.host.rpartition(":")[0] in _LOCAL_NAMES or request.host in _LOCAL_NAMES
        if not local or origin not in (None, f"http://{request.host}"):
            raise web.HTTPForbidden(text="tcexplore answers only pages of this machine.")
        given = request.query.get("token") or request.cookies.get(COOKIE, "")
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise web.HTTPForbidden(text="The token is missing or wrong: open the address that tcexplore printed.")
        # Behind a tunnel, the page may have another port.
        server.public_url = f"http://{request.host}"  # type: ignore[attr-defined]
        response = await handler(request)
        if not response.prepared:
            response.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Content-Security-Policy"] = _POLICY
        return response

    return require_token
