"""The symbolic sizes of each graph, from torch's `ShapeEnv` when it produces guards."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import sympy
from torch._guards import TracingContext

from tcexplore.capture.dynamo.trace_position import current_compile_id, traced_frames
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    GraphSymbols,
    Location,
    RunFact,
    Specialization,
    Symbol,
    SymbolCondition,
    SymbolSource,
    ZeroOneSpecialization,
)
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.guard_text import Check

_ENV = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_NOT_DYNAMIC = ("STATIC", "INFER_STRIDE", "SIZE_LIKE_UNBACKED")
_UNBACKED = ("create_unbacked_symint", "create_unbacked_symfloat", "create_unbacked_symbool")

_CACHE_LOOKUP = re.compile(r"\b(aot_autograd_result|codecache)\.py:")
"""Where torch adds the guards of a cached graph again: not what required them when it was compiled."""
_CACHED = "a graph from torch's cache"


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `GraphSymbols` for each graph with symbols, even if torch fails to produce its guards."""
    observer = _SymbolObserver(hooks, user_files)
    hooks.wrap(RunFact.SYMBOLIC_SIZES, f"{_ENV}.create_symbol", observer.creating)
    hooks.watch(RunFact.SYMBOLIC_SIZES, f"{_ENV}.produce_guards_verbose", before=observer.guards_produced)
    for name in _UNBACKED:
        hooks.watch(RunFact.SYMBOLIC_SIZES, f"{_ENV}.{name}", after=observer.unbacked_created)


class _EnvRecord:
    """Facts that a `ShapeEnv` does not record itself, in order of creation."""

    def __init__(self) -> None:
        self.sources: dict[str, list[SymbolSource]] = defaultdict(list)
        self.locations: dict[str, Location | None] = {}
        self.zero_one: list[ZeroOneSpecialization] = []


class _SymbolObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._records: WeakKeyDictionary[Any, _EnvRecord] = WeakKeyDictionary()
        self._emitted = ""

    def creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Observe symbols and dynamic sizes: torch calls this for each size and stride of each input."""

        @wraps(original)
        def create_symbol(env: Any, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(env, val, source, *args, **kwargs)
            dynamic_dim = args[0] if args else kwargs.get("dynamic_dim")
            if isinstance(result, sympy.Symbol) or getattr(dynamic_dim, "name", "STATIC") not in _NOT_DYNAMIC:
                self._hooks.observe(
                    RunFact.SYMBOLIC_SIZES, f"{_ENV}.create_symbol", self.symbol_created, result, env, val, source
                )
            return result

        return create_symbol

    def symbol_created(self, result: Any, env: Any, val: Any, source: Any) -> None:
        """Record a size, a stride or a number of an input that got a symbol, or was specialized to 0 or 1."""
        if isinstance(result, sympy.Symbol):
            self._record(env).sources[str(result)].append(read_source(source))
        elif val in (0, 1):
            symbol_source = read_source(source)
            if symbol_source.kind == "size":
                self._record(env).zero_one.append(ZeroOneSpecialization(source=symbol_source, value=str(val)))

    def unbacked_created(self, result: Any, env: Any, *_args: Any, **_kwargs: Any) -> None:
        """Record the line of a symbol for data that is unknown while compiling."""
        stack = traced_frames(TracingContext.extract_stack(), self._user_files)
        symbol = str(getattr(getattr(result, "node", None), "expr", result))
        self._record(env).locations[symbol] = stack[-1] if stack else None

    def guards_produced(self, env: Any, *_args: Any, **_kwargs: Any) -> None:
        """Emit the symbols of a graph, once: torch may produce its guards twice."""
        graph, record = current_compile_id(), self._record(env)
        symbols = tuple(self._symbol(env, record, symbol) for symbol in env.var_to_range)
        if graph and (symbols or record.zero_one) and graph != self._emitted:
            self._emitted = graph
            zero_one = tuple(dict.fromkeys(record.zero_one))
            self._hooks.emit(GraphSymbols(graph=graph, symbols=symbols, zero_one=zero_one))

    def _record(self, env: Any) -> _EnvRecord:
        return self._records.setdefault(env, _EnvRecord())

    def _symbol(self, env: Any, record: _EnvRecord, symbol: Any) -> Symbol:
        name, values = str(symbol), env.var_to_range[_representative(env, symbol)]
        hints = getattr(env, "backed_var_to_val", None)
        hints = env.var_to_val if hints is None else hints
        sources = dict.fromkeys([*record.sources[name], *map(read_source, env.var_to_sources.get(symbol, ()))])
        location = record.locations.get(name)
        return Symbol(
            name=name,
            unbacked=name.startswith(("u", "zuf")) or symbol not in hints,
            hint=str(hints.get(symbol, "")),
            lower=str(values.lower),
            upper=str(values.upper),
            sources=tuple(sources),
            location=location,
            user_code=self._user_files.line(location),
            specialized=tuple(self._specialized(env, symbol)),
            conditions=tuple(self._conditions(env, symbol)),
        )

    def _specialized(self, env: Any, symbol: Any) -> Iterable[Specialization]:
        """Yield the number that a symbol was specialized to, with the first guard that required it."""
        value = env.replacements.get(symbol)
        if value is None or value.free_symbols:
            return
        guards = [guard for guard in env.guards if _requires_value(guard.expr, value)]
        guard = next((guard for guard in guards if symbol in guard.expr.free_symbols), guards[0] if guards else None)
        stacks = getattr(env, "specialization_stacks", {})
        frames = (traced_frames(stacks.get(source), self._user_files) for source in env.var_to_sources.get(symbol, ()))
        location = (guard and self._location(guard)) or next((stack[-1] for stack in frames if stack), None)
        reason = "" if guard is None else _guard_code(guard.expr)
        user_code = self._user_files.line(location)
        yield Specialization(value=str(value), reason=reason, location=location, user_code=user_code)

    def _conditions(self, env: Any, symbol: Any) -> Iterable[SymbolCondition]:
        for guard in env.guards:
            if symbol in guard.expr.free_symbols:
                location, code = self._location(guard), _guard_code(guard.expr)
                yield SymbolCondition(
                    code=code,
                    location=location,
                    user_code=self._user_files.line(location),
                    library_place="" if location else _library_place(str(guard.sloc)),
                )

    def _location(self, guard: Any) -> Location | None:
        """Return the line of a guard, which torch keeps as text: the end of the path, the line and the function."""
        place = Check("", str(guard.sloc)).place
        return self._user_files.find(*place) if place else None


def _library_place(place: str) -> str:
    """Return the place of a guard in a library or in torch, from torch's text of it: `CALLER (TORCH)` or `(TORCH)`."""
    match = re.fullmatch(r"(?:(?P<caller>.+) )?\((?P<torch>.*)\)", place)
    if match is None:
        return ""
    return _CACHED if _CACHE_LOOKUP.search(match["torch"]) else match["caller"] or match["torch"]


def _representative(env: Any, symbol: Any) -> Any:
    """Return the symbol that replaces all symbols equal to this one: torch updates only its range."""
    while (other := env.replacements.get(symbol)) in env.var_to_range:
        symbol = other
    return symbol


def read_source(source: Any) -> SymbolSource:
    """Return the source of a symbol: a size or a stride of a tensor, or a number."""
    base, prop, dim = (getattr(source, name, None) for name in ("base", "prop", "idx"))
    kind: Any = getattr(prop, "name", "").lower()
    if base is not None and kind in ("size", "stride") and dim is not None:
        return SymbolSource(name=_readable_name(base), kind=kind, dim=int(dim))
    return SymbolSource(name=_readable_name(source), kind="value")


def _readable_name(source: Any) -> str:
    name = source.name
    return readable_source(name() if callable(name) else name)  # a method before torch 2.12


def _requires_value(expression: Any, value: Any) -> bool:
    """Return whether a guard requires this number, possibly of another symbol that is equal."""
    return isinstance(expression, sympy.Eq) and len(expression.free_symbols) == 1 and value in expression.args


def _guard_code(expression: Any) -> str:
    """Return a guard as Python code: `s0 == 64`, not `Eq(s0, 64)`."""
    if isinstance(expression, sympy.Eq | sympy.Ne):
        return f"{expression.lhs} {expression.rel_op} {expression.rhs}"
    return str(expression)
