"""What a program prints: whole characters, cleaned, gathered, and bounded."""

from __future__ import annotations

import asyncio
import os

from tcexplore.supervisor.output_reader import LARGEST, OutputReader


async def read(*parts: bytes) -> list[str]:
    """What is passed on of parts that are written one after the other."""
    taken: list[str] = []
    source, sink = os.pipe()
    reader = OutputReader(source, taken.append)
    for part in parts:
        os.write(sink, part)
        await asyncio.sleep(0)
    os.close(sink)
    await reader.closed.wait()
    return taken


async def test_characters_and_line_ends_split_across_reads_stay_whole() -> None:
    whole = "naïve ✓\r\nnext".encode()
    parts = [whole[i : i + 1] for i in range(len(whole))]
    assert "".join(await read(*parts)) == "naïve ✓\nnext"


async def test_bytes_that_are_no_text_are_replaced_and_controls_made_visible() -> None:
    assert "".join(await read(b"\xff\x1b[2J\n")) == "\ufffd␛[2J\n"


async def test_what_comes_at_once_is_passed_on_at_once() -> None:
    assert len(await read(*[b"line\n"] * 100)) <= 2


async def test_too_much_at_once_keeps_the_newest_and_says_so() -> None:
    taken: list[str] = []
    source, sink = os.pipe()
    reader = OutputReader(source, taken.append)
    line, last = b"x" * 1023 + b"\n", b"the last\n"

    def flood() -> None:
        for _ in range(4 * LARGEST // len(line)):
            os.write(sink, line)
        os.write(sink, last)
        os.close(sink)

    await asyncio.to_thread(flood)
    await reader.closed.wait()
    assert taken[-1].endswith("the last\n")
    assert all(len(text) <= LARGEST + 65_536 + 100 for text in taken)
