"""The settings of torch for a run: seed, threads, caches, and Dynamo's configuration."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import importlib
import logging
import operator
import os
import random
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Emit, Hooks
from tcexplore.capture.install_hooks import BACKEND_CALL
from tcexplore.events import Config, FactMissing, Job

CACHED_KERNELS = "kernels of previously compiled graphs"

OPTIONS: tuple[tuple[str, str, Any, str], ...] = (
    ("torch._inductor.config", "fx_graph_cache", False, CACHED_KERNELS),
    ("torch._functorch.config", "enable_autograd_cache", False, "graphs previously compiled by AOTAutograd"),
    ("torch._inductor.config", "trace.provenance_tracking_level", 1, "source ops of a kernel"),
)
"""Module, option, value, and the fact that is missing if torch has no such option."""

CACHES = tuple((module, option, True, fact) for module, option, value, fact in OPTIONS if value is False)
"""Those options of `OPTIONS` that switch caches off, switched on: for a run that uses torch's caches."""

_READ_ON_IMPORT = ("TORCH", "PYTORCH_", "OMP_", "MKL_", "KMP_")
"""Prefixes of environment variables that torch and its libraries read when they are imported."""

_READ_LATER = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_FORCE_DISABLE_CACHES"})
"""Variables that torch reads at each compile, or sets itself."""

_SETTING = re.compile(r"(torch\.(?:_dynamo|_inductor|_functorch|fx\.experimental)\._?config)\.([a-zA-Z_][\w.]*)")
"""A setting: a module with torch's configuration, and a name in it."""

_CPU_LIBRARY = Path("lib", "libtorch_cpu.so")


def apply(job: Job, threads: int, emit: Emit) -> None:
    """Apply the settings of a job; `threads` is torch's default number of threads on this machine."""
    config = job.config
    set_threads(config.threads, threads, emit)
    seed(config.seed)
    indent_continued_lines()
    set_options(emit)
    if job.caches:
        for option in CACHES:
            _set(*option, emit)
    if folder := job.caches or job.cache_dir:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    if not config.fuse:
        _set("torch._inductor.config", "max_fusion_size", 1, "Inductor without fusion", emit)
    for text in config.settings:
        apply_setting(text)
    _choose_fusions(config)


def apply_setting(text: str) -> None:
    """Set `torch._dynamo.config.nested_graph_breaks=True`. Raise `EntryError` if this torch has no such setting."""
    name, _, value = text.partition("=")
    match = _SETTING.fullmatch(name)
    try:
        if match is None:
            raise AttributeError(f"{name!r} is not a name such as torch._dynamo.config.recompile_limit")
        _replaced.setdefault(name, _assign(match[1], match[2], _literal(value)))
    except (ImportError, AttributeError, TypeError) as error:
        raise EntryError(f"This torch cannot set {text}: {error}", stage="arguments") from None


_replaced: dict[str, Any] = {}
"""Values of settings before `apply_setting` changed them, by name. A process has one job."""


def exchange_settings(old: Config, new: Config) -> None:
    """Set the settings of a configuration back, and apply those of another one. Raise `EntryError` as above."""
    for text in old.settings:
        name = text.partition("=")[0]
        match = _SETTING.fullmatch(name)
        if match is not None and name in _replaced:
            _assign(match[1], match[2], _replaced[name])
    for text in new.settings:
        apply_setting(text)
    if old.fusion_choices != new.fusion_choices:
        _choose_fusions(new)


def _choose_fusions(config: Config) -> None:
    """Let Inductor fuse as a configuration chooses. Nothing is imported for one without choices."""
    if config.fusion_choices or "tcexplore.capture.inductor.fusion_choices" in sys.modules:
        from tcexplore.capture.inductor.fusion_choices import choose_fusions

        choose_fusions(config.fusion_choices)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def seed(value: int) -> None:
    """Seed torch, Python, and NumPy if it is loaded."""
    random.seed(value)
    torch.manual_seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % 2**32)


def option_values() -> tuple[Any, ...]:
    """Return the values of `OPTIONS`, of those whose module is loaded."""
    return tuple(
        operator.attrgetter(option)(sys.modules[module])
        for module, option, _, _ in OPTIONS
        if module in sys.modules and hasattr(sys.modules[module], option.partition(".")[0])
    )


def set_options(emit: Emit) -> None:
    """Set `OPTIONS`; emit a `FactMissing` for each one that torch lacks."""
    for option in OPTIONS:
        _set(*option, emit)


def _set(module: str, option: str, value: Any, fact: str, emit: Emit) -> None:
    try:
        _assign(module, option, value)
    except (ImportError, AttributeError) as error:
        emit(FactMissing(fact=fact, symbol=f"{module}:{option}", reason=f"this torch has no such option: {error}"))


def _assign(module: str, option: str, value: Any) -> Any:
    """Set an option of torch, and return its value before. Raise `ImportError` or `AttributeError` if it has none."""
    config = importlib.import_module(module)
    *path, name = option.split(".")
    for part in path:
        config = getattr(config, part)
    before = getattr(config, name)
    setattr(config, name, value)
    default, _ = _assigned.get((module, option), (before, value))
    _assigned[module, option] = default, value
    return before


_assigned: dict[tuple[str, str], tuple[Any, Any]] = {}
"""Values of options before and after they were set, by module and option."""

_in_thread = threading.local()


def use_own_caches(config: Config) -> None:
    """Switch torch's caches on again where the user has them on, for a process that only times.

    Not with chosen fusions: torch does not know of them, so its caches would mix up the code with and without them.
    """
    for module, option, _, _ in CACHES:
        if not config.fusion_choices and (module, option) in _assigned:
            default, _ = _assigned[module, option]
            _assign(module, option, default)


def keep_caches_off(hooks: Hooks) -> None:
    """Switch torch's caches off again where the program has switched them on: what is cached is not compiled.

    `options` of `torch.compile` are in effect only within the backend.
    """

    @functools.cache
    def watch_inductor() -> None:  # in the first call: an earlier import would delay the first graph
        hooks.watch(CACHED_KERNELS, "torch._inductor.compile_fx:_compile_fx_inner", before=_switch_off)

    def enter_backend(*_: Any, **__: Any) -> None:
        _switch_off()
        watch_inductor()

    hooks.watch(CACHED_KERNELS, BACKEND_CALL, before=enter_backend)


def _switch_off(*_: Any, **__: Any) -> None:
    for module, option, _on, _fact in CACHES:
        if getattr(sys.modules.get(module), option, False):
            setattr(sys.modules[module], option, False)


def follow_threads(hooks: Hooks) -> None:
    """Set the options in each further thread that compiles: since torch 2.13, a thread has its own."""
    hooks.watch("settings in other threads", "torch._dynamo.convert_frame:_compile", before=_set_in_thread)


def _set_in_thread(*_: Any, **__: Any) -> None:
    if threading.current_thread() is threading.main_thread() or getattr(_in_thread, "set", False):
        return
    _in_thread.set = True
    for (module, option), (default, value) in list(_assigned.items()):
        config = importlib.import_module(module)
        if operator.attrgetter(option)(config) == default:  # the program has not set it in this thread
            _assign(module, option, value)


def set_threads(requested: int | None, default: int, emit: Emit) -> None:
    """Let torch use `requested` threads, or else its `default`.

    `torch.set_num_threads` also keeps MKL from using fewer threads where a call is too small to gain from them: `sin`
    of 512 floats then takes twice as long, and thousands of times as long if a core is busy. The user's program is
    only affected if it sets the number of threads itself, so without `requested`, restore MKL's own choice.
    """
    torch.set_num_threads(requested or default)
    fixed = os.environ.get("MKL_DYNAMIC", "").strip().lower() in ("false", "0", "no", "n")
    if requested or fixed or not torch.backends.mkl.is_available():
        return
    try:
        ctypes.CDLL(str(Path(torch.__file__).parent / _CPU_LIBRARY)).MKL_Set_Dynamic(1)
    except (OSError, AttributeError) as error:
        reason = f"small operations may use more threads than outside tcexplore: {error}"
        emit(FactMissing(fact="MKL's own choice of threads", symbol="MKL_Set_Dynamic", reason=reason))


def is_read_on_import(name: str) -> bool:
    """Return whether torch or one of its libraries reads an environment variable when it is imported."""
    return name.startswith(_READ_ON_IMPORT) and name not in _READ_LATER


def report_late_variables(before: Mapping[str, str], emit: Emit) -> None:
    """Emit a `FactMissing` if the model file set environment variables for torch, which was imported before it."""
    names = [
        name for name, value in os.environ.items()
        if is_read_on_import(name) and before.get(name) != value
    ]  # fmt: skip
    if names:
        reason = (
            "torch is imported before the file runs, and may have read them already: set them in the shell, "
            "before tcexplore starts"
        )
        emit(FactMissing(fact="environment variables that the file sets", symbol=", ".join(names), reason=reason))


class DynamoSettings:
    """A copy of Dynamo's configuration, to restore it after the model file may have changed it.

    No effect if torch cannot copy the configuration.
    """

    def __init__(self) -> None:
        import torch._dynamo

        self._config: Any = torch._dynamo.config
        self._copy: Any = None
        with contextlib.suppress(AttributeError):
            self._copy = self._config.get_config_copy()

    def restore(self) -> None:
        """Restore the configuration."""
        if self._copy is not None:
            self._config.load_config(self._copy)


# ---- log messages


_Format = Callable[[Any, logging.LogRecord], str]


def indent_continued_lines() -> None:
    """Have torch's `TorchLogsFormatter` print its prefix before the first line of a message only.

    torch repeats time, process and location before each line. Do nothing if torch has no such formatter.
    """
    try:
        formatter = importlib.import_module("torch._logging._internal").TorchLogsFormatter
        original = formatter.format
    except (ImportError, AttributeError):
        return
    if not hasattr(original, "__wrapped__"):
        formatter.format = _indenting(original)


def _indenting(original: _Format) -> _Format:
    @functools.wraps(original)
    def format(formatter: Any, record: logging.LogRecord) -> str:  # noqa: A001
        return indented(original(formatter, record), record.getMessage())

    return format


def indented(text: str, message: str) -> str:
    """Return `text`, which is `message` with a prefix before each line, with the prefix before the first line only."""
    first, *others = text.split("\n")
    prefix = first.removesuffix(message.split("\n", 1)[0])
    if not others or not prefix.strip() or len(prefix) == len(first):
        return text
    return "\n".join([first, *(f"  {line.removeprefix(prefix)}".rstrip() for line in others)]).rstrip()
