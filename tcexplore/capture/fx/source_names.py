"""Dynamo's source expressions as the user would write them: `L['self']._modules['fc1']` is `self.fc1`."""

from __future__ import annotations

import re

_ROOT = re.compile(r"\b[LG]\['([^'\]]+)'\]")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^'\]]+)'\]")
_OF_CLASS = re.compile(r"dict\(type\((.+?)\)\.__dict__\)\['([^']+)'\]")
_ITEM_OF_DICT = re.compile(r"dict\.__getitem__\((.+?), '([^']+)'\)")


def readable_source(source: str) -> str:
    """A guard's or a placeholder's source without Dynamo's scaffolding: `L['x']` is `x`.

    Modules, parameters and buffers are shown as attributes; what has no shorter form stays as it is.
    """
    source = _OF_CLASS.sub(r"type(\1).\2", source)
    source = _ITEM_OF_DICT.sub(r"\1['\2']", source)
    return _MEMBER.sub(r".\1", _ROOT.sub(r"\1", source))
