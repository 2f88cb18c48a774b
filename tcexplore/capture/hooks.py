"""Observers around torch functions: each hook is optional, and none can break a compile."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcexplore.events import Event, FactMissing

Emit = Callable[[Event], None]


class Hooks:
    """Patches of torch functions that call observers.

    `emit` receives the events of a run, and one `FactMissing` for each hook whose torch symbol does not exist or whose
    observer fails. A failed observer is not called again.
    """

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._failed: set[tuple[str, str]] = set()
        self._patched: list[tuple[Any, str, Any, bool]] = []
        self._paused = False
        self._deferred: list[Callable[[], None]] = []

    def watch(
        self,
        fact: str,
        symbol: str,
        *,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
        failed: Callable[..., None] | None = None,
    ) -> bool:
        """Call `before(*args, **kwargs)` and `after(result, *args, **kwargs)` around `module:Class.method`.

        An exception of an observer is reported as a missing `fact`. An exception of torch propagates unchanged, and
        `failed(error, *args, **kwargs)` is called instead of `after`. Return whether the symbol exists.
        """

        def observe(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def watched(*args: Any, **kwargs: Any) -> Any:
                if before is not None:
                    self.observe(fact, symbol, before, *args, **kwargs)
                try:
                    result = original(*args, **kwargs)
                except Exception as error:  # any exception of torch: it is raised again
                    if failed is not None:
                        self.observe(fact, symbol, failed, error, *args, **kwargs)
                    raise
                if after is not None:
                    self.observe(fact, symbol, after, result, *args, **kwargs)
                return result

            return watched

        return self.wrap(fact, symbol, observe)

    def wrap(self, fact: str, symbol: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Replace `module:Class.method` by `make(original)`; return whether the symbol exists.

        An inherited method is replaced for this class only. Use this for hot paths and for hooks that change arguments
        or results: their exceptions are not caught, so they must not raise.
        """
        try:
            owner, name = _resolve(symbol)
            descriptor = inspect.getattr_static(owner, name)
        except (ImportError, AttributeError) as error:
            self.report_missing(fact, symbol, f"this torch has no {symbol}: {error}")
            return False
        self._patched.append((owner, name, descriptor, name in vars(owner)))
        if isinstance(descriptor, staticmethod | classmethod):
            setattr(owner, name, type(descriptor)(make(descriptor.__func__)))
        else:
            setattr(owner, name, make(descriptor))
        return True

    def remove(self) -> None:
        """Restore every patched symbol, in reverse order."""
        while self._patched:
            owner, name, descriptor, defined_here = self._patched.pop()
            if defined_here:
                setattr(owner, name, descriptor)
            else:
                delattr(owner, name)

    def defer(self, fact: str, symbol: str, function: Callable[..., None], *args: Any) -> None:
        """Call a function that emits `fact` with `attempt` once the call that compiles now is over."""
        self._deferred.append(functools.partial(self.attempt, fact, symbol, function, *args))

    def run_deferred(self) -> None:
        """Call the deferred functions, outside of what a compile or a call takes."""
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call()

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Emit nothing inside this context, for compiles that are not part of the user's program."""
        emit, self.emit = self.emit, lambda _: None
        deferred, self._deferred = self._deferred, []
        try:
            yield
        finally:
            self.emit, self._deferred = emit, deferred

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Call no observer inside this context, for calls that are not compiled for the user.

        torch itself compiles parts of an eager call: the wrappers of `torch.cond` and FlexAttention.
        """
        was_paused, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = was_paused

    def observe(self, fact: str, symbol: str, observer: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Call an observer of torch with `attempt`, unless observers are paused."""
        if not self._paused:
            self.attempt(fact, symbol, observer, *args, **kwargs)

    def attempt(self, fact: str, symbol: str, function: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Call a function that emits `fact`; after an exception, report it as missing and ignore further calls."""
        if (fact, symbol) in self._failed:
            return
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  a defect in tcexplore costs this fact, never the compile
            self._failed.add((fact, symbol))
            self.report_missing(fact, symbol, f"{type(error).__name__}: {error}")

    def report_missing(self, fact: str, symbol: str, reason: str) -> None:
        """Emit that `fact` is not available in this run."""
        self.emit(FactMissing(fact=fact, symbol=symbol, reason=reason))


def _resolve(symbol: str) -> tuple[Any, str]:
    module, _, path = symbol.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name
