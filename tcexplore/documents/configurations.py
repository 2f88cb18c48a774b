"""Texts about a configuration of torch.compile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.events.config import INDUCTOR, SKIP_GUARD_EVAL

if TYPE_CHECKING:
    from tcexplore.session import Snapshot  # not imported before the first frame

DYNAMIC = {True: "true", False: "false", None: "auto"}


REGIONS = {"whole": "", "blocks": "blocks by themselves", "nested": "nested regions"}
"""What is compiled, as text; the whole model needs none."""

SHORT_SETTINGS = {
    "torch._dynamo.config.nested_graph_breaks=True": "nested graph breaks",
    "torch._inductor.config.numerics=strict_pointwise": "strict pointwise numerics",
    "torch._inductor.config.numerics=strict_reduction": "strict reduction numerics",
    "torch._inductor.config.numerics=strict": "strict numerics",
    "torch.fx.experimental._config.backed_size_oblivious=True": "size-oblivious",
}


def describe_variant(config: ev.Config) -> str:
    """Return what a configuration has beyond backend, mode and dynamic: `nested regions`; empty for nothing."""
    unbacked = f"unbacked {' '.join(config.mark_unbacked)}" if config.mark_unbacked else ""
    settings = (SHORT_SETTINGS.get(text, text) for text in config.settings)
    return ", ".join(filter(None, (REGIONS[config.regions], unbacked, config.guard_filter, *settings)))


def describe_configuration(config: ev.Config) -> str:
    """Return `inductor, max-autotune, dynamic false`."""
    fusion = "" if config.fuse else ", no fusion"
    variant = describe_variant(config)
    rest = f", {variant}" if variant else ""
    return f"{config.backend}, {config.mode}, dynamic {DYNAMIC[config.dynamic]}{fusion}{rest}"


def format_torch(machine: ev.Standby) -> str:
    """Return `torch 2.13.0`, with Python and its environment if it is not the one that runs tcexplore."""
    if not machine.environment:
        return f"torch {machine.torch}"
    source = machine.environment_source
    place = display_path(source if os.path.isabs(source) else machine.environment)
    return f"torch {machine.torch}, Python {machine.python} ({place})"


def format_compile_call(config: ev.Config) -> str:
    """Return the code for a configuration: `torch.compile(…, mode="max-autotune", dynamic=False)`."""
    stance = config.guard_filter == SKIP_GUARD_EVAL
    filtered = f"options={{'guard_filter_fn': torch.compiler.{config.guard_filter}}}"
    given = [
        f'backend="{config.backend}"' if config.backend != "inductor" else "",
        f'mode="{config.mode}"' if config.mode != "default" else "",
        f"dynamic={config.dynamic}" if config.dynamic is not None else "",
        filtered if config.guard_filter and not stance else "",
    ]
    arguments = ", ".join(filter(None, given))
    if config.regions == "blocks":
        return f"block.compile({arguments}) for each repeated block"
    call = f"torch.compile({', '.join(filter(None, ('…', arguments)))})"
    extra = [*config.settings, *(f"mark_unbacked on {dim}" for dim in config.mark_unbacked)]
    if stance:
        extra.append("torch.compiler.set_stance('default', skip_guard_eval_unsafe=True) after the first calls")
    if config.regions == "nested":
        extra.append("torch.compiler.nested_compile_region on the forward of the repeated blocks")
    return " with ".join((call, " and ".join(extra))) if extra else call


def format_configurations(snapshot: Snapshot) -> str:
    """Return the configuration of a run; of a script with several, all of them; empty for a trace."""
    return ", ".join(map(_format_configuration, snapshot.configs))


def _format_configuration(config: ev.Config) -> str:
    """Return `inductor · default` and what differs from the defaults."""
    parts = [config.backend]
    parts += [config.mode] if config.backend == INDUCTOR or config.mode != "default" else []
    parts += [f"dynamic={config.dynamic}"] if config.dynamic is not None else []
    parts += ["fullgraph"] if config.fullgraph else []
    parts += ["forward and backward"] if config.train else []
    parts += [f"gradients {'on' if config.grad else 'off'}"] if config.grad is not None and not config.train else []
    return " · ".join(parts)


def describe_grad_mode(mode: ev.GradMode | None) -> str:
    """Return a sentence on a grad mode that the user did not choose, empty if it changes nothing."""
    if mode is None or not mode.matters:
        return ""
    if mode.reason == "needed":
        return "Gradients are on: the model computes gradients in its forward."
    if mode.reason == "inference":
        return "Gradients are off, as in inference. --grad true keeps them on; --train also runs the backward."
    return ""
