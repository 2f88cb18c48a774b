"""The app in a browser: only pages of this machine that have the token get it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tcexplore.cli import main
from tests.supervisor.runs import alive, descendants, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

PATIENCE_S = 30


@contextmanager
def serving(file: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a file; yield the process and the address that tcexplore prints."""
    arguments = [sys.executable, "-m", "tcexplore", "serve", "--port", "0", file, "--no-history"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().split()[1]
        finally:
            if server.poll() is None:
                server.kill()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a file with a syntax error, which needs no torch."""
    file = tmp_path_factory.mktemp("serve") / "my model.py"
    file.write_text("import torch\nmodel = = 1\n")
    with serving(str(file)) as (server, address):
        yield address
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE_S) == 0


async def status(address: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as response:
        return response.status


async def test_a_page_needs_the_token_and_a_local_address(address: str) -> None:
    bare, _, token = address.partition("?token=")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", bare)
    assert await status(address) == 200
    assert await status(bare) == 403
    assert await status(f"{bare}?token={token[:-1]}") == 403
    assert await status(f"{bare}?token=%FF%00") == 403
    assert await status(f"{bare}ws") == 403
    assert await status(f"{bare}static/js/textual.js") == 403
    assert await status(address, Host="attacker.example") == 403
    assert await status(address, Origin="http://attacker.example") == 403


async def test_a_page_runs_the_app_until_it_is_closed(address: str) -> None:
    bare = address.partition("?")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(address) as page:
            assert f"{bare}ws".replace("http", "ws", 1) in await page.text()
        async with session.ws_connect(f"{bare}ws?width=100&height=30") as socket, asyncio.timeout(PATIENCE_S):
            screen = b""
            while b"invalid syntax" not in screen:
                screen += await socket.receive_bytes()
            await socket.send_json(["stdin", "q"])
            while (await socket.receive()).type not in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("stopped", [False, True], ids=["app runs", "app is stopped"])
async def test_an_open_page_does_not_delay_the_end(tmp_path: Path, number: int, *, stopped: bool) -> None:
    (tmp_path / "model.py").write_text("model = = 1\n")
    with serving(str(tmp_path / "model.py")) as (server, address):
        bare = address.partition("?")[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await session.get(address)
            async with session.ws_connect(f"{bare}ws?width=100&height=30") as socket, asyncio.timeout(PATIENCE_S):
                await read_until(socket, b"invalid syntax")
                apps = descendants(server.pid)
                assert apps
                for pid in apps if stopped else ():
                    os.kill(pid, signal.SIGSTOP)
                began = time.monotonic()
                server.send_signal(number)
                assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0
                assert time.monotonic() - began < 2
        await until(lambda: not any(map(alive, apps)))


GIANT = ("99999999", "-5", "x" * 30, "9" * 1000, "1e300")


@pytest.mark.parametrize("size", GIANT)
async def test_a_browser_with_an_absurd_size_gets_a_screen(address: str, size: str) -> None:
    bare = address.partition("?")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await session.get(address)
        async with session.ws_connect(f"{bare}ws?width={size}&height={size}") as socket, asyncio.timeout(PATIENCE_S):
            await read_until(socket, b"invalid syntax")
            widths: tuple[object, ...] = (10**9, -1, "x", None, {}, 80)
            for width in widths:
                await socket.send_json(["resize", {"width": width, "height": 10**9 if width == 10**9 else 24}])
            await socket.send_json(["stdin", "q"])
            while (await socket.receive()).type not in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                pass


async def read_until(socket: aiohttp.ClientWebSocketResponse, text: bytes) -> None:
    """Read the screen until a text is painted."""
    screen = b""
    while text not in screen:
        screen += await socket.receive_bytes()


@pytest.mark.parametrize("port", ["99999", "65536", str(2**70)])
def test_a_port_that_does_not_exist_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
    (tmp_path / "model.py").write_text("model = 1\n")
    assert main(["serve", str(tmp_path / "model.py"), "--port", port]) == 2
    assert "numbered from 0 to 65535" in capsys.readouterr().err
