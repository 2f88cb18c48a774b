"""A configuration in words."""

from __future__ import annotations

from tcexplore.events import Config

DYNAMIC = {True: "true", False: "false", None: "auto"}


def said(config: Config) -> str:
    """`inductor, max-autotune, dynamic false`."""
    fusion = "" if config.fuse else ", no fusion"
    return f"{config.backend}, {config.mode}, dynamic {DYNAMIC[config.dynamic]}{fusion}"
