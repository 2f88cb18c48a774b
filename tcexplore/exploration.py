"""Compiles in this process, without workers or front end, for tests."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
import torch._dynamo

from tcexplore import events as ev
from tcexplore.capture.entry import function_of
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import install_all
from tcexplore.capture.user_files import UserFiles
from tcexplore.events.codec import HEADER, encode
from tcexplore.quantities import count
from tcexplore.report.ci_formats import IssueRule, ci_issues
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import newest_causes

Call = Sequence[Any] | Mapping[str, Any]
"""Positional arguments, or keyword arguments."""

_SETTINGS = (
    ("torch._inductor.config", "fx_graph_cache", False),
    ("torch._functorch.config", "enable_autograd_cache", False),
    ("torch._inductor.config", "trace.provenance_tracking_level", 1),
)
"""Caches that would skip a compile, and the ops of a kernel."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """Facts about what torch did with a model. The records are those of `tcexplore.events`."""

    snapshot: Snapshot
    outputs: tuple[Any, ...] = ()
    """Results of the compiled calls."""

    @property
    def breaks(self) -> tuple[ev.GraphBreak, ...]:
        return self.snapshot.breaks

    @property
    def graphs(self) -> tuple[ev.GraphCaptured, ...]:
        return self.snapshot.graphs

    @property
    def recompiles(self) -> tuple[ev.Recompiled, ...]:
        """One record per recompile: the guard of the newest entry that failed."""
        return tuple(cause for cause, _ in newest_causes(self.snapshot) if not cause.limit_hit)

    @property
    def kernels(self) -> tuple[ev.Kernel, ...]:
        """Generated kernels and library calls; empty for a backend other than Inductor."""
        return self.snapshot.code.kernels

    def assert_no_breaks(self) -> Exploration:
        """Raise `AssertionError` with reason, line and hint of each graph break."""
        __tracebackhide__ = True
        return self.assert_max_breaks(0)

    def assert_max_breaks(self, most: int) -> Exploration:
        __tracebackhide__ = True
        return self._assert(len(self.breaks), most, "graph break", "graph-break")

    def assert_max_recompiles(self, most: int) -> Exploration:
        __tracebackhide__ = True
        return self._assert(len(self.recompiles), most, "recompile", "recompile")

    def assert_max_graphs(self, most: int) -> Exploration:
        __tracebackhide__ = True
        return self._assert(len(self.graphs), most, "graph", "graph-break")

    def assert_max_kernels(self, most: int) -> Exploration:
        __tracebackhide__ = True
        generated = sum(kernel.generated for kernel in self.kernels)
        return self._assert(generated, most, "generated kernel", "graph-break")

    def _assert(self, number: int, most: int, noun: str, rule: IssueRule) -> Exploration:
        __tracebackhide__ = True
        if number > most:
            issues = ci_issues(self.snapshot, GateResult(breaks=self.breaks))
            reasons = [f"{i.path}:{i.line}: {i.message}".replace("\n", "\n    ") for i in issues if i.rule == rule]
            raise AssertionError("\n  ".join([f"{count(number, noun)}, {most} allowed", *reasons]))
        return self


class Explorer:
    """Compiles models in this process; each compile starts with empty caches of Dynamo."""

    def explore(
        self,
        model: Callable[..., Any],
        *inputs: Any,
        calls: Sequence[Call] = (),
        **options: Any,
    ) -> Exploration:
        """Compile a module or function, call it with `inputs`, then with each of `calls`.

        A call is a tuple of positional arguments or a dictionary of keyword arguments. `options` are those of
        `torch.compile`. Exceptions of the calls propagate.
        """
        every = [*([inputs] if inputs or not calls else []), *calls]
        with self.watch(model) as result:
            compiled = torch.compile(model, **options)
            outputs = tuple(compiled(**call) if isinstance(call, Mapping) else compiled(*call) for call in every)
        return Exploration(result().snapshot, outputs)

    @contextmanager
    def watch(self, model: Callable[..., Any]) -> Iterator[Callable[[], Exploration]]:
        """Watch every compile inside this context; the value returns what torch did so far.

        `model` tells which code is the user's, as opposed to libraries.
        """
        function = function_of(model)
        file = inspect.getsourcefile(function) or ""
        user_files = UserFiles(file)
        user_files.adopt(function)
        events: list[ev.Event] = []
        hooks = Hooks(events.append)

        def result() -> Exploration:
            hooks.run_deferred()
            snapshot = Snapshot(run=0, file=file, source="", config=ev.Config())
            for event in events:
                # The wire format cleans untrusted text.
                snapshot = snapshot.apply(ev.decode(encode(event)[HEADER.size :]))
            return Exploration(snapshot)

        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # torch warns about code that it cannot trace
            for module, option, value in _SETTINGS:
                _patch(stack, module, option, value)
            torch._dynamo.reset()
            # Test runners show every record that reaches the root logger.
            logger = logging.getLogger("torch.__trace")
            stack.callback(setattr, logger, "propagate", logger.propagate)
            logger.propagate = False
            trace = install_all(hooks, user_files)
            stack.callback(torch._dynamo.reset)
            stack.callback(hooks.remove)
            stack.callback(trace.remove)
            yield result


def _patch(stack: ExitStack, module: str, option: str, value: Any) -> None:
    """Set an option of torch inside the stack, if this torch has it."""
    config = import_module(module)
    try:
        stack.enter_context(config.patch({option: value}))
    except (AttributeError, KeyError):
        return
