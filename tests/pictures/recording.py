"""An SVG that shows several screenshots one after the other, with captions, without a script."""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

SECONDS = 4.0
"""Duration of each frame."""

CAPTION_HEIGHT = 44


class Frame(NamedTuple):
    """A screenshot of Textual."""

    caption: str
    svg: str


def recording(frames: list[Frame]) -> str:
    """Return the animation. A viewer that does not animate shows the first frame."""
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', frames[0].svg)
    assert box is not None, "Textual's screenshots have a view box"
    width, height = float(box[1]), float(box[2])
    total = SECONDS * len(frames)
    share = 100 / len(frames)
    style = (
        f"@keyframes show{{0%,{share:.3f}%{{opacity:1}}{share + 0.001:.3f}%,100%{{opacity:0}}}}"
        f".frame{{opacity:0;animation:show {total:g}s steps(1) infinite}}.frame:first-of-type{{opacity:1}}"
        ".caption{font:600 22px system-ui,sans-serif;fill:#8a93a1}"
    )
    bodies = "\n".join(_frame(frame, index, total, height) for index, frame in enumerate(frames))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + CAPTION_HEIGHT:g}">\n'
        f"<style>{style}</style>\n{bodies}\n</svg>\n"
    )


def _frame(frame: Frame, index: int, total: float, height: float) -> str:
    """Return a group with the content of a screenshot, whose names are made unique."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", frame.svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+", f"frame{index}", svg)
    content = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    content = "\n".join(line.rstrip() for line in content.splitlines() if line.strip())
    delay = index * SECONDS - total if index else 0.0
    return (
        f'<g class="frame" style="animation-delay:{delay:g}s">\n{content}\n'
        f'<text class="caption" x="16" y="{height + 30:g}">{escape(frame.caption)}</text>\n</g>'
    )
