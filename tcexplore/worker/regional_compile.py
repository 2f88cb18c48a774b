"""Regional compilation: the repeated blocks of a model, each kind of them compiled once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from tcexplore.capture.compile_overrides import with_further_arguments
from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Emit
from tcexplore.events import Config, RepeatedBlocks
from tcexplore.events.config import SKIP_GUARD_EVAL

Function = Callable[..., Any]
Blocks = dict[type[nn.Module], list[nn.Module]]

CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)

NO_BLOCKS = "The model has no repeated blocks to compile by themselves."
NO_BLOCKS_HINT = "A block is a class of modules that a ModuleList, ModuleDict or Sequential of the model repeats."


def emit_repeated_blocks(model: nn.Module | None, emit: Emit) -> None:
    """Emit `RepeatedBlocks` if the model has any."""
    if blocks := repeated_blocks(model):
        emit(RepeatedBlocks(kinds=tuple((kind.__name__, len(instances)) for kind, instances in blocks.items())))


def repeated_blocks(model: nn.Module | None) -> Blocks:
    """Return the outermost modules in containers whose class occurs there more than once, by class.

    Torch's own layers without submodules, such as `nn.Linear`, are no blocks.
    """
    blocks: Blocks = defaultdict(list)
    if model is not None:
        _collect(model, blocks, set())
    return {kind: instances for kind, instances in blocks.items() if len(instances) > 1}


def _collect(module: nn.Module, blocks: Blocks, seen: set[int]) -> None:
    kinds = [type(child) for child in module.children()] if isinstance(module, CONTAINERS) else []
    for child in module.children():
        if id(child) in seen:
            continue
        seen.add(id(child))
        if type(child) in kinds and _is_block(child):
            blocks[type(child)].append(child)
        else:
            _collect(child, blocks, seen)


def _is_block(module: nn.Module) -> bool:
    if isinstance(module, CONTAINERS):
        return False
    return not type(module).__module__.startswith("torch.nn.") or any(True for _ in module.children())


def compile_arguments(config: Config) -> dict[str, Any]:
    """Return the arguments of `torch.compile` for a configuration."""
    arguments = {
        "backend": config.backend, "dynamic": config.dynamic, "fullgraph": config.fullgraph, "mode": config.mode,
    }  # fmt: skip
    if config.guard_filter in ("", SKIP_GUARD_EVAL):
        return with_further_arguments(arguments, config)
    return with_further_arguments(arguments, config, guard_filter_fn=guard_filter(config.guard_filter))


def skip_guard_evaluation(config: Config) -> None:
    """Let later calls check only the guards that tell graphs apart, if the configuration says so."""
    if config.guard_filter == SKIP_GUARD_EVAL:
        torch.compiler.set_stance("default", skip_guard_eval_unsafe=True)


def guard_filter(name: str) -> Function:
    """Return a guard filter of torch. Raise `EntryError` if this torch has no such filter."""
    function: Function | None = getattr(torch.compiler, name, None)
    if function is None:
        raise EntryError(f"This torch has no torch.compiler.{name}.", "Leave it out of --guard-filters.", "arguments")
    return function


def compile_target(target: Function, model: nn.Module | None, config: Config) -> Function:
    """Compile the target as `config.regions` says. Raise `EntryError` if the model has no repeated blocks."""
    arguments = compile_arguments(config)
    if config.regions == "whole":
        return _compile(target, arguments)
    blocks = repeated_blocks(model)
    if not blocks:
        raise EntryError(NO_BLOCKS, NO_BLOCKS_HINT, "arguments")
    if config.regions == "nested":
        mark_nested_regions(blocks)
        return _compile(target, arguments)
    return compile_blocks(target, [block for instances in blocks.values() for block in instances], arguments)


def _compile(target: Function, arguments: dict[str, Any]) -> Function:
    compiled: Function = torch.compile(target, **arguments)
    return compiled


def mark_nested_regions(blocks: Blocks) -> None:
    """Mark the forward of each block's class, which then does the same in eager calls."""
    mark = getattr(torch.compiler, "nested_compile_region", None)
    if mark is None:
        message = "This torch has no torch.compiler.nested_compile_region."
        raise EntryError(message, "Leave nested out of --regions.", "arguments")
    for kind in blocks:
        if not hasattr(kind.forward, "__marked_compile_region_fn__"):
            kind.forward = mark(kind.forward)


def compile_blocks(target: Function, blocks: Sequence[nn.Module], arguments: dict[str, Any]) -> Function:
    """Return the target with `block.compile()` in effect for each block, but only within its calls.

    The eager target uses the same modules. Two writes per block and call take well below a microsecond.
    """
    compiled = []
    for block in blocks:
        block.compile(**arguments)
        compiled.append((block.__dict__, block.__dict__.pop("_compiled_call_impl")))

    def call_with_compiled_blocks(*args: Any, **kwargs: Any) -> Any:
        for attributes, call in compiled:
            attributes["_compiled_call_impl"] = call
        try:
            return target(*args, **kwargs)
        finally:
            for attributes, _ in compiled:
                attributes.pop("_compiled_call_impl", None)

    return call_with_compiled_blocks
