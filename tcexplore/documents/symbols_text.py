"""Symbolic sizes in words: what they stand for, what torch assumed of them, and what would help."""

from __future__ import annotations

from tcexplore.events import Symbol, SymbolSource, ZeroOne

_NO_BOUND = ("int_oo", "-int_oo", "oo", "-oo")
_AT_LEAST_TWO = 2


def format_source(found: SymbolSource) -> str:
    """`x.size(0)`, `x.stride(1)`, `lr`."""
    return found.name if found.dim is None else f"{found.name}.{found.what}({found.dim})"


def format_range(symbol: Symbol) -> str:
    """The range: `any number`, `any float`, `from 2 on`, `2 to 64`, `only 6`."""
    low, high = symbol.lower, symbol.upper
    if low in _NO_BOUND and high in _NO_BOUND:
        return "any float" if _is_float(symbol) else "any number"
    if low == high:
        return f"only {low}"
    if high in _NO_BOUND:
        return f"from {low} on"
    return f"up to {high}" if low in _NO_BOUND else f"{low} to {high}"


def format_hint(symbol: Symbol) -> str:
    """The value that it was traced with, as Python writes it."""
    return f"{float(symbol.hint):g}" if _is_float(symbol) and symbol.hint else symbol.hint


def _is_float(symbol: Symbol) -> bool:
    """Whether it stands for a Python float, which became a tensor of the graph."""
    return symbol.name.startswith("z")


def describe_symbol(symbol: Symbol) -> str:
    """What it stands for, in a sentence."""
    names = [format_source(found) for found in symbol.sources]
    if symbol.unbacked and not names:
        return "unbacked: data that is not known while compiling"
    if symbol.unbacked:
        return f"unbacked, for {' and '.join(names)}: nothing was assumed of its size, not even 0 or 1"
    return " = ".join(names) or "a value that torch made up"


def explain_symbol(symbol: Symbol) -> list[str]:
    """What torch's rules made of it: 0/1 specialization, duck shaping."""
    said = []
    sizes = [found for found in symbol.sources if found.what == "size"]
    if not symbol.unbacked and sizes and symbol.lower == str(_AT_LEAST_TWO):
        said.append("0/1 specialization: sizes 0 and 1 get code of their own, so that it starts at 2.")
    if len(symbol.sources) > 1:
        names = ", ".join(format_source(found) for found in symbol.sources)
        said.append(
            f"Duck shaping: {names} were equal when it was compiled, so they share one symbol. A call in which they "
            "differ is compiled again."
        )
    return said


def describe_zero_one(found: ZeroOne) -> str:
    """Why a dynamic dimension is a number all the same."""
    return (
        f"{format_source(found.source)} is dynamic, but was {found.value} when it was compiled: sizes 0 and 1 are always "
        "specialized, for they broadcast, and decide about layouts."
    )
