"""Texts about a configuration of torch.compile."""

from __future__ import annotations

import os

from tcexplore.documents.locations import display_path
from tcexplore.events import Config, GradMode, Standby

DYNAMIC = {True: "true", False: "false", None: "auto"}


def describe_configuration(config: Config) -> str:
    """Return `inductor, max-autotune, dynamic false`."""
    fusion = "" if config.fuse else ", no fusion"
    return f"{config.backend}, {config.mode}, dynamic {DYNAMIC[config.dynamic]}{fusion}"


def format_torch(machine: Standby) -> str:
    """Return `torch 2.13.0`, with Python and its environment if it is not the one that runs tcexplore."""
    if not machine.environment:
        return f"torch {machine.torch}"
    source = machine.environment_source
    place = display_path(source if os.path.isabs(source) else machine.environment)
    return f"torch {machine.torch}, Python {machine.python} ({place})"


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
    parts += [f"gradients {'on' if config.grad else 'off'}"] if config.grad is not None and not config.train else []
    return " · ".join(parts)


def describe_grad_mode(mode: GradMode | None) -> str:
    """Return a sentence on a grad mode that the user did not choose, empty if it changes nothing."""
    if mode is None or not mode.matters:
        return ""
    if mode.reason == "needed":
        return "Gradients are on: the model computes gradients in its forward."
    if mode.reason == "inference":
        return "Gradients are off, as in inference. --grad true keeps them on; --train also runs the backward."
    return ""
