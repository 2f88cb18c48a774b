"""Output arrives as whole characters, cleaned, in batches of bounded size."""

from __future__ import annotations

import asyncio
import os

from tcexplore.supervisor.run_process import LARGEST_BATCH, OutputReader


async def read(*parts: bytes) -> list[str]:
    """Return the batches for parts that are written one by one."""
    batches: list[str] = []
    source, sink = os.pipe()
    reader = OutputReader(source, batches.append)
    for part in parts:
        os.write(sink, part)
        await asyncio.sleep(0)
    os.close(sink)
    await reader.closed.wait()
    return batches


async def test_characters_and_line_ends_split_across_reads_are_joined() -> None:
    whole = "naïve ✓\r\nnext".encode()
    parts = [whole[i : i + 1] for i in range(len(whole))]
    assert "".join(await read(*parts)) == "naïve ✓\nnext"


async def test_invalid_bytes_are_replaced_and_control_characters_become_visible() -> None:
    assert "".join(await read(b"\xff\x1b[2J\n")) == "\ufffd␛[2J\n"


async def test_output_that_arrives_together_is_one_batch() -> None:
    assert len(await read(*[b"line\n"] * 100)) <= 2


async def test_too_much_output_keeps_the_newest() -> None:
    batches: list[str] = []
    source, sink = os.pipe()
    reader = OutputReader(source, batches.append)
    line, last = b"x" * 1023 + b"\n", b"the last\n"

    def flood() -> None:
        for _ in range(4 * LARGEST_BATCH // len(line)):
            os.write(sink, line)
        os.write(sink, last)
        os.close(sink)

    await asyncio.to_thread(flood)
    await reader.closed.wait()
    assert batches[-1].endswith("the last\n")
    assert all(len(text) <= LARGEST_BATCH + 65_536 + 100 for text in batches)
