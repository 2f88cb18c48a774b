"""The app in a browser: only pages of this machine that have the token get it."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

PATIENCE_S = 30


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a file with a syntax error, which needs no torch; yield the address that tcexplore prints."""
    file = tmp_path_factory.mktemp("serve") / "my model.py"
    file.write_text("import torch\nmodel = = 1\n")
    arguments = [sys.executable, "-m", "tcexplore", "serve", "--port", "0", str(file), "--no-history"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1]
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
