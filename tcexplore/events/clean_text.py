"""Cleaning of untrusted text, applied once when the protocol is decoded."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd"


def clean(text: str) -> str:
    """Make control characters visible: C0 (except tab and newline), DEL, C1, bidi overrides, lone surrogates.

    Drop a carriage return that ends a line; others become `␍`. The result cannot move the cursor or change colors.
    Every other character maps to one character.
    """
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return _UNSAFE.sub(_visible, text) if _UNSAFE.search(text) else text
