"""The cures for sizes and numbers that recompile, as what to write."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.documents.paths import at
from tcexplore.session.recompile_fixes import BUCKETS, DYNAMIC, MARK_DYNAMIC, MARK_UNBACKED, TENSOR, RecompileFix


def describe_fix(cure: RecompileFix, file: str) -> str:
    """What to write, and what it does."""
    return _SAID[cure.name](cure, file)


def _mark_dynamic(cure: RecompileFix, _: str) -> str:
    marks = "; ".join(f"torch._dynamo.mark_dynamic({what}, {dim})" for what, dim in ((cure.what, cure.dim), *cure.also))
    together = " They change together: where they have to be equal, one marked alone is an error too." * bool(cure.also)
    return (
        f"{marks} before the call: one graph for every size from 2 on, from the first compile. It is an error if the "
        f"code specializes the size.{together}"
    )


def _dynamic(_: RecompileFix, __: str) -> str:
    return "torch.compile(..., dynamic=True), --dynamic on here: every size is a symbol from the first compile on."


def _mark_unbacked(cure: RecompileFix, _: str) -> str:
    return (
        f"torch._dynamo.decorators.mark_unbacked({cure.what}, {cure.dim}): one graph for sizes 0 and 1 too. It is an "
        "error where the code decides something by the size."
    )


def _buckets(cure: RecompileFix, file: str) -> str:
    sizes = f" ({', '.join(cure.values)} so far)" if len(cure.values) > 1 else ""
    padded = f"Pad {cure.what} in dimension {cure.dim} to a short list of sizes{sizes}: one graph for each of them."
    if cure.blocked is None:
        return padded
    where = at(cure.blocked.location, file)
    return (
        f"{where or 'The code'} makes it the number {cure.blocked.value} (`{cure.blocked.reason}`), so a dynamic size "
        f"does not help as long as it does. {padded}"
    )


def _tensor(cure: RecompileFix, _: str) -> str:
    return (
        f"Pass {cure.what} as a tensor, torch.tensor({cure.values[0] if cure.values else '...'}): its value is not "
        "guarded. As a float it is compiled once more when it first changes."
    )


_SAID: dict[str, Callable[[RecompileFix, str], str]] = {
    MARK_DYNAMIC: _mark_dynamic, DYNAMIC: _dynamic, MARK_UNBACKED: _mark_unbacked, BUCKETS: _buckets, TENSOR: _tensor,
}  # fmt: skip
