"""The symbolic sizes of each graph: from the `ShapeEnv` that torch traced it with, when it makes guards of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import sympy
from torch._guards import TracingContext

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.capture.guards.guard_text import Check
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    Condition,
    Location,
    Specialized,
    Symbol,
    SymbolsFound,
    SymbolSource,
    ZeroOne,
)

_FACT = "symbolic sizes"
_ENV = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_FIXED = ("STATIC", "INFER_STRIDE", "SIZE_LIKE_UNBACKED")
_UNBACKED = ("create_unbacked_symint", "create_unbacked_symfloat", "create_unbacked_symbool")


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `SymbolsFound` for each graph that has symbols, also where its guards could not be made."""
    observer = _Symbols(hooks, project)
    hooks.watch(_FACT, f"{_ENV}.create_symbol", after=observer.created)
    hooks.watch(_FACT, f"{_ENV}.produce_guards_verbose", before=observer.guarded)
    for name in _UNBACKED:
        hooks.watch(_FACT, f"{_ENV}.{name}", after=observer.unbacked)


class _Seen:
    """What is known of one `ShapeEnv` that it does not keep itself: in the order of its making."""

    def __init__(self) -> None:
        self.sources: dict[str, list[SymbolSource]] = defaultdict(list)
        self.places: dict[str, Location | None] = {}
        self.zero_one: list[ZeroOne] = []


class _Symbols:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._seen: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()
        self._said = ""

    def created(self, result: Any, env: Any, value: Any, source: Any, *args: Any, **more: Any) -> None:
        """A size, a stride or a number of an input was given a symbol, or its value where it gets none."""
        known, made = self._of(env), symbol_source(source)
        dynamic = args[0] if args else more.get("dynamic_dim")
        if isinstance(result, sympy.Symbol):
            known.sources[str(result)].append(made)
        elif made.what == "size" and value in (0, 1) and getattr(dynamic, "name", "STATIC") not in _FIXED:
            known.zero_one.append(ZeroOne(source=made, value=str(value)))

    def unbacked(self, result: Any, env: Any, *_args: Any, **_more: Any) -> None:
        """A symbol was made for data that is not known while compiling."""
        stack = self._project.frames(TracingContext.extract_stack())
        self._of(env).places[str(getattr(getattr(result, "node", None), "expr", result))] = stack[-1] if stack else None

    def guarded(self, env: Any, *_args: Any, **_more: Any) -> None:
        """Guards are made of what was assumed of the symbols: torch may do so twice for a graph."""
        graph, known = current_compile_id(), self._of(env)
        symbols = tuple(self._symbol(env, known, name) for name in env.var_to_range)
        if graph and (symbols or known.zero_one) and graph != self._said:
            self._said = graph
            self._hooks.emit(SymbolsFound(graph=graph, symbols=symbols, zero_one=tuple(dict.fromkeys(known.zero_one))))

    def _of(self, env: Any) -> _Seen:
        return self._seen.setdefault(env, _Seen())

    def _symbol(self, env: Any, known: _Seen, symbol: Any) -> Symbol:
        name, values = str(symbol), env.var_to_range[_same(env, symbol)]
        hints = getattr(env, "backed_var_to_val", None)
        hints = env.var_to_val if hints is None else hints
        sources = list(dict.fromkeys([*known.sources[name], *map(symbol_source, env.var_to_sources.get(symbol, ()))]))
        place = known.places.get(name)
        return Symbol(
            name=name,
            unbacked=name.startswith(("u", "zuf")) or symbol not in hints,
            hint=str(hints.get(symbol, "")),
            lower=str(values.lower),
            upper=str(values.upper),
            sources=tuple(sources),
            location=place,
            user_code=self._project.line(place),
            specialized=tuple(self._specialized(env, symbol)),
            conditions=tuple(self._conditions(env, symbol)),
        )

    def _specialized(self, env: Any, symbol: Any) -> Iterable[Specialized]:
        """The number that a symbol became, and the first guard that made it so."""
        value = env.replacements.get(symbol)
        if value is None or value.free_symbols:
            return
        deciding = [g for g in env.guards if _decides(g.expr, value)]
        guard = next((g for g in deciding if symbol in g.expr.free_symbols), deciding[0] if deciding else None)
        stacks = getattr(env, "specialization_stacks", {})
        frames = (self._project.frames(stacks.get(source)) for source in env.var_to_sources.get(symbol, ()))
        place = (guard and self._place(guard)) or next((found[-1] for found in frames if found), None)
        reason = "" if guard is None else _written(guard.expr)
        yield Specialized(value=str(value), reason=reason, location=place, user_code=self._project.line(place))

    def _conditions(self, env: Any, symbol: Any) -> Iterable[Condition]:
        for guard in env.guards:
            if symbol in guard.expr.free_symbols:
                place = self._place(guard)
                yield Condition(code=_written(guard.expr), location=place, user_code=self._project.line(place))

    def _place(self, guard: Any) -> Location | None:
        """torch keeps the line of a guard as text: the end of its path, its number and its function."""
        place = Check("", str(guard.sloc)).place
        return self._project.find(*place) if place else None


def _same(env: Any, symbol: Any) -> Any:
    """The symbol that torch uses in the place of one that has to be equal to it: only that one's range goes on."""
    while (other := env.replacements.get(symbol)) in env.var_to_range:
        symbol = other
    return symbol


def symbol_source(source: Any) -> SymbolSource:
    """What a symbol stands for, of torch's `Source`: a size or a stride of a tensor, else a number."""
    base, prop, dim = (getattr(source, name, None) for name in ("base", "prop", "idx"))
    kind = getattr(prop, "name", "").lower()
    if base is not None and kind in ("size", "stride") and dim is not None:
        return SymbolSource(name=_readable(base), what=kind, dim=int(dim))
    return SymbolSource(name=_readable(source), what="value")


def _readable(source: Any) -> str:
    name = source.name
    return readable_source(name() if callable(name) else name)  # a method before torch 2.12


def _decides(expression: Any, value: Any) -> bool:
    """Whether a guard makes a symbol this number: one that is equal to it may have been made so in its place."""
    return isinstance(expression, sympy.Eq) and len(expression.free_symbols) == 1 and value in expression.args


def _written(expression: Any) -> str:
    """A guard as Python would have it: `s0 == 64`, not `Eq(s0, 64)`."""
    if isinstance(expression, sympy.Eq | sympy.Ne):
        return f"{expression.lhs} {expression.rel_op} {expression.rhs}"
    return str(expression)
