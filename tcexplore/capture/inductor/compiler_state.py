"""The state of the compiler at the first graph of a run: settings, defaults, libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CompilerSetting, CompilerState

FACT = "settings of the compiler"
_COMPILE = "torch._inductor.compile_fx:fx_codegen_and_compile"

CONFIGURATIONS = ("torch._inductor.config", "torch._dynamo.config", "torch._functorch.config")

LONGEST_VALUE = 160
"""Characters of a value."""

_WITHOUT_EFFECT = re.compile(
    r"torch\._inductor\.config\.(?:trace\.|debug|verbose|fx_graph_cache|fx_graph_remote|autotune_(?:local|remote)_cache"
    r"|compile_threads|worker_|quiesce|.*_progress|.*_dir$|.*logging.*|.*_path$|.*cache_key.*|cpp\.cxx$"
    r"|inductor_choices_class|TYPE_CHECKING|.*TESTING)"
    r"|torch\._functorch\.config\.(?:enable_autograd_cache|.*remote.*|debug|TYPE_CHECKING|.*_dir$)"
    r"|torch\._dynamo\.config\.(?:.*log.*|TYPE_CHECKING|debug_dir.*|repro.*|verbose|.*_dir$|.*cache.*_path)"
)
"""Settings of logs, caches, folders and of compile workers, and those that tcexplore itself sets."""

_LIBRARIES = (
    ("oneDNN", re.compile(r"(?:MKL-DNN|oneDNN) v([\d.]+)")),
    ("MKL", re.compile(r"Math Kernel Library Version ([\w.]+)")),
    ("vector instructions", re.compile(r"CPU capability usage: (\w+)")),
    ("C++ compiler of torch", re.compile(r"GCC ([\d.]+)|clang ([\d.]+)")),
)
"""Patterns in `torch.__config__.show()`."""


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit a `CompilerState` when Inductor compiles the first graph."""
    emitted = False

    def emit(*_: Any, **__: Any) -> None:
        nonlocal emitted
        if not emitted:
            emitted = True
            hooks.emit(compiler_state())

    hooks.watch(FACT, _COMPILE, before=emit)


def compiler_state() -> CompilerState:
    """Return the state of the compiler now: a mode is in force while Inductor compiles."""
    settings = [*_settings(), *_globals()]
    changed = [setting for setting in settings if setting.value != setting.default]
    return CompilerState(
        torch=str(torch.__version__),
        settings=tuple(changed),
        defaults=tuple((setting.name, setting.value) for setting in settings if setting.value == setting.default),
        libraries=tuple(_libraries()),
    )


def _settings() -> Iterator[CompilerSetting]:
    for module in CONFIGURATIONS:
        config: Any = import_module(module)
        for name, entry in config._config.items():
            whole = f"{module}.{name}"
            skipped = entry.alias is not None or getattr(entry, "deprecated", False) or name.startswith("_")
            if not skipped and not _WITHOUT_EFFECT.match(whole):
                yield CompilerSetting(name=whole, value=_text(getattr(config, name)), default=_text(entry.default))


def _globals() -> Iterator[CompilerSetting]:
    """Yield the settings outside torch's configuration that change generated code."""
    values = (
        ("torch.get_float32_matmul_precision()", torch.get_float32_matmul_precision(), "highest"),
        ("torch.backends.mkldnn.enabled", torch.backends.mkldnn.enabled, True),
        ("torch.are_deterministic_algorithms_enabled()", torch.are_deterministic_algorithms_enabled(), False),
        ("torch.get_default_dtype()", str(torch.get_default_dtype()), "torch.float32"),
    )
    for name, value, default in values:
        yield CompilerSetting(name=name, value=_text(value), default=_text(default))


def _text(value: Any) -> str:
    text = _source(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _source(value: Any) -> str:
    """Return a literal as Python source, and the name of anything else."""
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) in (list, tuple):
        items = ", ".join(map(_source, value))
        return f"[{items}]" if type(value) is list else f"({items}{',' if len(value) == 1 else ''})"
    if type(value) in (set, frozenset):
        return "{" + ", ".join(sorted(map(_source, value))) + "}" if value else "set()"
    if type(value) is dict:
        return "{" + ", ".join(f"{_source(key)}: {_source(item)}" for key, item in value.items()) + "}"
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"<{getattr(value, '__module__', type(value).__module__)}.{name}>"


def _libraries() -> Iterator[tuple[str, str]]:
    shown = torch.__config__.show()
    for name, pattern in _LIBRARIES:
        if match := pattern.search(shown):
            yield name, next(group for group in match.groups() if group)
