"""The expressions of guards, and torch's comments on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_COMMENT = re.compile(r"\s+# ")
_HINT = re.compile(r"\s*\(HINT: .*\)$")
_PLACE = re.compile(r"(?:^|# )(\S+\.py):(\d+) in (\S+)")

SHAPE_REASONS = {
    "duck sizing": "they were equal when it was compiled",
    "0/1 specialization": "sizes 0 and 1 are specialized",
}
"""Reasons for conditions on sizes, by torch's words."""


class Check(NamedTuple):
    """One expression of a guard and torch's comment on it."""

    code: str
    comment: str

    @property
    def place(self) -> tuple[str, int, str] | None:
        """Return the end of the path, the line and the function in the comment."""
        place = _PLACE.search(self.comment)
        return (place.group(1), int(place.group(2)), place.group(3)) if place else None


def split_check(text: str, known_codes: Iterable[str] = ()) -> Check:
    """Split a check into code and comment. `known_codes` are the codes that torch also keeps without the comment."""
    code = next((code for code in known_codes if text.startswith(code)), None)
    if code is None:
        code = _COMMENT.split(text, maxsplit=1)[0]
    return Check(_HINT.sub("", code), _HINT.sub("", text[len(code) :].strip().removeprefix("# ")))
