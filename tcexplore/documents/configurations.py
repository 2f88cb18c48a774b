"""Texts about a configuration of torch.compile."""

from __future__ import annotations

from tcexplore.events import Config

DYNAMIC = {True: "true", False: "false", None: "auto"}


def describe_configuration(config: Config) -> str:
    """Return `inductor, max-autotune, dynamic false`."""
    fusion = "" if config.fuse else ", no fusion"
    return f"{config.backend}, {config.mode}, dynamic {DYNAMIC[config.dynamic]}{fusion}"


def format_compile_call(config: Config) -> str:
    """Return the call for a configuration: `torch.compile(…, mode="max-autotune", dynamic=False)`."""
    given = [
        f'backend="{config.backend}"' if config.backend != "inductor" else "",
        f'mode="{config.mode}"' if config.mode != "default" else "",
        f"dynamic={config.dynamic}" if config.dynamic is not None else "",
    ]
    return f"torch.compile({', '.join(['…', *filter(None, given)])})"


def format_configuration(config: Config) -> str:
    """Return `inductor · default` and what differs from the defaults."""
    parts = [config.backend, config.mode]
    parts += [f"dynamic={config.dynamic}"] if config.dynamic is not None else []
    parts += ["fullgraph"] if config.fullgraph else []
    parts += ["forward and backward"] if config.train else []
    return " · ".join(parts)
