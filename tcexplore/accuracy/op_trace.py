"""Which ATen ops a run makes, and whether two runs made the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import zip_longest
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CAST = "aten._to_copy"
SILENT = (CAST, "aten.detach", "aten.clone", "aten.alias", "aten.lift_fresh")
"""What changes no value is left out: a cast to the dtype that a tensor already has is not made at all."""

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Path(TorchDispatchMode):  # type: ignore[misc]
    """Notes the `ops` that are run inside, by name.

    With `widen`, casts to a smaller floating-point dtype go to float64 instead, as those of a norm that computes in
    float32 whatever it is given: a float64 run would round there.
    Nothing is compiled inside: `torch.cond` in eager code compiles what it is given, and what is compiled under a mode
    would stay for later calls, and fail there.
    """

    supports_higher_order_operators = True

    def __init__(self, *, widen: bool = False) -> None:
        super().__init__()
        self.ops: list[str] = []
        self._widen = widen
        self._around = ExitStack()

    def __enter__(self) -> Self:
        self._around.enter_context(torch.compiler.set_stance("force_eager"))
        entered: Self = super().__enter__()
        return entered

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._around.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        name = str(getattr(func, "overloadpacket", func))
        if name not in SILENT:
            self.ops.append(name)
        if self._widen and name == CAST and given.get("dtype") in FLOATS:
            given = {**given, "dtype": torch.float64}
        return func(*args, **given)


def parted(float32: list[str], float64: list[str]) -> str:
    """Where two runs took different paths, in words; empty where they did not."""
    for one, other in zip_longest(float32, float64):
        if one != other:
            return f"where the program's own dtype runs {_named(one)}, float64 runs {_named(other)}"
    return ""


def ops_of(run: Callable[[], object]) -> list[str]:
    """The ops of a run."""
    path = Path()
    with path:
        run()
    ops: list[str] = path.ops
    return ops


def _named(op: str | None) -> str:
    return op or "nothing more"
