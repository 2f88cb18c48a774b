"""Watching torch symbols from outside: every hook is optional, and none of them can break a compile."""

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
    """Patches torch symbols so that observers run beside them.

    `emit` receives the events of a run, and a `FactMissing` for each hook that this torch has no place for or
    whose observer failed (said once per hook: a broken observer is not asked again).
    """

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._broken: set[str] = set()
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def watch(
        self,
        fact: str,
        symbol: str,
        *,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
        failed: Callable[..., None] | None = None,
    ) -> bool:
        """Run `before(*args, **kwargs)` and `after(result, *args, **kwargs)` around `module:Class.method`.

        What the observers raise is reported as a missing `fact`; what torch raises passes through untouched: then
        `failed(error, *args, **kwargs)` is called instead of `after`. Returns whether the symbol was found.
        """

        def observe(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def watched(*args: Any, **kwargs: Any) -> Any:
                if before is not None:
                    self.guarded(fact, symbol, before, *args, **kwargs)
                try:
                    result = original(*args, **kwargs)
                except Exception as error:
                    if failed is not None:
                        self.guarded(fact, symbol, failed, error, *args, **kwargs)
                    raise
                if after is not None:
                    self.guarded(fact, symbol, after, result, *args, **kwargs)
                return result

            return watched

        return self.wrap(fact, symbol, observe)

    def wrap(self, fact: str, symbol: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Put `make(original)` in the place of `module:Class.method`; returns whether the symbol was found. A method
        that the class inherits is replaced for this class only.

        For hooks on hot paths and for those that must see or hand on other arguments: what they raise is not caught,
        so they must not raise of themselves.
        """
        try:
            owner, name = _resolve(symbol)
            descriptor = inspect.getattr_static(owner, name)
        except (ImportError, AttributeError) as error:
            self.missing(fact, symbol, f"this torch has no {symbol}: {error}")
            return False
        self._replaced.append((owner, name, descriptor, name in vars(owner)))
        if isinstance(descriptor, staticmethod | classmethod):
            setattr(owner, name, type(descriptor)(make(descriptor.__func__)))
        else:
            setattr(owner, name, make(descriptor))
        return True

    def remove(self) -> None:
        """Put back every symbol that was replaced, the last one first."""
        while self._replaced:
            owner, name, descriptor, own = self._replaced.pop()
            if own:
                setattr(owner, name, descriptor)
            else:
                delattr(owner, name)

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """While inside, nothing is made known: for a compile that is no part of what the user asked for."""
        emit, self.emit = self.emit, lambda _: None
        try:
            yield
        finally:
            self.emit = emit

    def guarded(self, fact: str, symbol: str, observer: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Call an observer; a failure of ours costs the fact, never the compile."""
        if symbol in self._broken:
            return
        try:
            observer(*args, **kwargs)
        except Exception as error:
            self._broken.add(symbol)
            self.missing(fact, symbol, f"{type(error).__name__}: {error}")

    def missing(self, fact: str, symbol: str, reason: str) -> None:
        """Say that this torch does not give `fact`."""
        self.emit(FactMissing(fact=fact, symbol=symbol, reason=reason))


def _resolve(symbol: str) -> tuple[Any, str]:
    module, _, path = symbol.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name
