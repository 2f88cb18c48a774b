"""torch's test of the vector instructions of this machine, beside the compile."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

_FACT = "vectorization of C++ loops"
_ISA = "torch._inductor.cpu_vec_isa"


class VectorProbe:
    """torch's test of the vector instructions that this machine can use, in a thread beside the compile.

    torch loads a small library in each of up to six processes. Otherwise, it waits for them, one by one, when it writes
    the first C++ loop of a process: a quarter of the time of a first compile.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._thread: threading.Thread | None = None

    def install(self) -> None:
        """Start the test when the first graph with a tensor on the CPU reaches Inductor, unless its result is known."""
        from torch._inductor import cpu_vec_isa

        if not cpu_vec_isa.valid_vec_isa_list.cache_info().currsize:
            self._hooks.watch(_FACT, "torch._inductor.compile_fx:compile_fx", before=self._start)
            self._hooks.wrap(_FACT, f"{_ISA}:valid_vec_isa_list", self._after_thread)

    def _start(self, _: Any, inputs: Iterable[Any], *__: Any, config_patches: Any = None, **___: Any) -> None:
        if self._thread is not None or config_patches:  # it calls itself with the settings in effect
            return
        if any(getattr(getattr(value, "device", None), "type", "") == "cpu" for value in inputs):
            context = contextvars.copy_context()  # has torch's settings
            self._thread = threading.Thread(target=context.run, args=(self._test,), name="vector probe", daemon=True)
            self._thread.start()

    def _test(self) -> None:
        with contextlib.suppress(Exception):  # torch tries again in the compile, and raises it there
            self._list()

    def _after_thread(self, original: Callable[[], Any]) -> Callable[[], Any]:
        self._list = original

        @functools.wraps(original)
        def listed() -> Any:
            if self._thread is not None:
                self._thread.join()
            return original()

        return listed


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Let torch test the vector instructions in a thread."""
    VectorProbe(hooks).install()
