"""The accuracy check of one run, call by call within a time budget, with a float64 run as the reference."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tcexplore.accuracy.observation import (
    Function,
    Observation,
    ObservationDiff,
    Subject,
    comparable,
    compare_as_tensors,
    diff_observations,
    fill_rewritten,
    observe,
)
from tcexplore.accuracy.rounded_ops import FLOATS, UNCHANGED, RoundedOps
from tcexplore.accuracy.tensor_comparison import LESS_ACCURATE, NOT_CLOSE, WRONG, ComparedValue, compare_value, rms
from tcexplore.capture.entry import Call
from tcexplore.capture.module_paths import module_of
from tcexplore.events import ACCURACY_VERDICTS, Accuracy, AccuracyVerdict, Deviation
from tcexplore.quantities import size

BUDGET_S = 4.0
"""No further call is compared after this many seconds."""

COPIES = 6
"""Number of live float64 tensors during the comparison of two values."""

MIN_ERROR = torch.finfo(torch.float64).eps
"""Smallest meaningful error against float64."""

KINDS = ("outputs", "gradients", "changed")

ROUNDED_RUNS, MOST_ROUNDED_RUNS, ROUNDED_S = 3, 16, 3.0
"""Eager runs with other roundings, where the error of compiled exceeds eager's, until one errs as much.

After the first ones there are more for some seconds: where a rounding decides on which side of zero a few values are,
most runs are close to each other, and some are not.
"""

ROUNDED_SLOWDOWN = 8
"""Worst-case slowdown of such a run."""


def check_accuracy(subject: Subject) -> Accuracy:
    """Compare eager and compiled on the subject's calls. Raises the exceptions of user code."""
    return _AccuracyCheck(subject).run()


class _AccuracyCheck:
    """The values and differences so far."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._began = time.perf_counter()
        self._compiled = subject.compiled
        self._reference = Float64Reference(subject)
        self._too_large = ""
        self._random = self._fallback_random = False
        self._values: list[Deviation] = []
        self._differences: dict[ObservationDiff, None] = {}

    def run(self) -> Accuracy:
        compared = 0
        for call in self._subject.calls:
            if not self._compare_call(call, f"call {compared + 1}: " if len(self._subject.calls) > 1 else ""):
                break
            compared += 1
            if time.perf_counter() - self._began > BUDGET_S:
                break
        return self._accuracy(compared)

    def _compare_call(self, call: Call, prefix: str) -> bool:
        """Compare one call; return False if its results are too large."""
        started = time.perf_counter()
        eager = self._observe(self._subject.eager, call)
        seconds = time.perf_counter() - started
        if too_large := _too_large(eager):
            self._too_large = too_large
            return False
        if eager.random:
            self._use_fallback_random()
        compiled = self._observe(self._compiled, call)
        compare_as_tensors(eager, compiled)
        fill_rewritten(eager, compiled)
        exact = self._reference.run(call, seconds, eager)
        self._differences |= dict.fromkeys(
            ObservationDiff(prefix + difference.text, difference.wrong)
            for difference in diff_observations(eager, compiled)
        )
        values = list(common_values(eager, compiled, exact))
        deviations = compare_values(values, self._rounded(call, seconds), (WRONG, LESS_ACCURATE, NOT_CLOSE))
        self._values += [replace(deviation, name=prefix + deviation.name) for deviation in deviations]
        return True

    def _rounded(self, call: Call, eager_s: float) -> Iterator[Observation]:
        """Make an eager call that took `eager_s` seconds again and again, with other roundings, if that is not long."""
        if eager_s * ROUNDED_RUNS * ROUNDED_SLOWDOWN <= MAX_CALL_S:
            yield from rounded_runs(self._subject, call)

    def _observe(self, function: Function, call: Call) -> Observation:
        return observe(self._subject, function, call, self._subject.module)

    def _use_fallback_random(self) -> None:
        self._random = True
        if self._subject.unrandomized is not None and not self._fallback_random:
            self._compiled, self._fallback_random = self._subject.unrandomized(self._warm_up), True

    def _warm_up(self, function: Function) -> None:
        """Make every call once to compile it, without side effects on the model."""
        for call in self._subject.calls:
            self._observe(function, call)

    def _accuracy(self, compared: int) -> Accuracy:
        values = self._values
        worst = max(values, key=severity, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else ("identical" if compared else "not judged")
        if any(difference.wrong for difference in self._differences):
            verdict = WRONG
        return Accuracy(
            verdict=verdict,
            max_abs=_largest(value.max_abs for value in values),
            max_rel=_largest(value.max_rel for value in values),
            eager_vs_fp64=worst.eager_vs_fp64 if worst else None,
            compiled_vs_fp64=worst.compiled_vs_fp64 if worst else None,
            rounded_error=worst.rounded_error if worst else None,
            allowed_error=worst.allowed_error if worst else None,
            worst=worst.name if worst else "",
            values=tuple(sorted(values, key=severity, reverse=True)),
            differences=tuple(difference.text for difference in self._differences),
            random=self._random,
            fallback_random=self._fallback_random,
            calls=compared,
            total_calls=len(self._subject.calls),
            train=self._subject.train,
            reason=self._too_large or self._reference.reason,
            seconds=time.perf_counter() - self._began,
        )


def compare_values(
    values: Sequence[ComparedValue], rounded: Iterable[Observation], unexplained: Collection[AccuracyVerdict]
) -> list[Deviation]:
    """Return the deviation of each value.

    As long as the verdict of one is `unexplained`, the `rounded` runs may explain it, each with other roundings.
    """
    deviations, runs = list(map(compare_value, values)), iter(rounded)
    while any(known.verdict in unexplained for known in deviations) and (run := next(runs, None)) is not None:
        deviations = [_with_rounded(*pair, run) for pair in zip(values, deviations, strict=True)]
    return deviations


def rounded_runs(
    subject: Subject, call: Call, observed: Callable[[Subject], Observation] | None = None
) -> Iterator[Observation]:
    """Make an eager call again and again, with other roundings of each op's result.

    `observed` makes it, by default once; it is given the subject whose calls have other roundings.

    One rounding decides on which side of zero a value is. So the gradient of a ReLU, or what a maximum selects, may
    differ by far more than a rounding, and the error of one eager run is only a sample.
    """
    ends = time.monotonic() + ROUNDED_S
    for seed in range(MOST_ROUNDED_RUNS):
        if seed >= ROUNDED_RUNS and time.monotonic() > ends:
            return

        def make(function: Function, call: Call, seed: int = seed) -> Any:
            with torch.compiler.set_stance("force_eager"), RoundedOps(seed):
                return subject.call(function, call)

        try:
            rounded = replace(subject, call=make)
            run = observed(rounded) if observed else observe(rounded, subject.eager, call, subject.module)
        except Exception:  # noqa: BLE001  the user's code may refuse a dispatch mode in any way
            return
        yield run


def _with_rounded(value: ComparedValue, known: Deviation, run: Observation) -> Deviation:
    """Return the deviation of a value if a run with other roundings explains more of it than is known, else `known`."""
    tensor = next((getattr(run, kind)[value.name] for kind in KINDS if value.name in getattr(run, kind)), None)
    if tensor is None or tensor.shape != value.eager.shape or tensor.dtype is not value.eager.dtype:
        return known
    deviation = compare_value(value._replace(rounded=(tensor,)))
    return min(known, deviation, key=lambda one: (ACCURACY_VERDICTS.index(one.verdict), -(one.rounded_error or 0.0)))


def _too_large(eager: Observation) -> str:
    """Return the reason if a call's results are too large to compare, else an empty string."""
    tensors = [tensor for kind in KINDS for tensor in getattr(eager, kind).values()]
    needed = COPIES * 8 * max((tensor.numel() for tensor in tensors), default=0)
    free = free_memory(tensors[0].device) if tensors else None
    if free is None or needed <= free // MEMORY_DIVISOR:
        return ""
    budget = size(free // MEMORY_DIVISOR)
    return f"comparing the largest result takes {size(needed)}; a {MEMORY_DIVISOR}th of the free memory is {budget}"


def common_values(eager: Observation, compiled: Observation, exact: Observation | None) -> Iterator[ComparedValue]:
    """Yield each value that both sides have, with its float64 value if available."""
    for kind in KINDS:
        sides: tuple[dict[str, torch.Tensor], ...] = tuple(getattr(side, kind) for side in (eager, compiled))
        exacts: dict[str, torch.Tensor] = getattr(exact, kind) if exact else {}
        scale = max((rms(tensor) for tensor in exacts.values() if tensor.is_floating_point()), default=0.0)
        for name, tensor in sides[0].items():
            if comparable(tensor, sides[1].get(name)):
                precision = torch.float32 if name in eager.python_floats else tensor.dtype
                exact_value = _usable_exact(exacts.get(name), tensor)
                yield ComparedValue(name, tensor, sides[1][name], exact_value, scale, precision)


def _usable_exact(exact: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor | None:
    """Return the float64 value if it has a wider dtype and the same shape as `value`."""
    if exact is None or exact.dtype not in (torch.float64, torch.complex128):
        return None
    return exact if exact.dtype != value.dtype and exact.shape == value.shape else None


def severity(value: Deviation) -> tuple[int, float]:
    """Return a sort key: the verdict, then the ratio of the errors of compiled and eager against float64."""
    eager, compiled = value.eager_vs_fp64, value.compiled_vs_fp64
    if eager is None or compiled is None:
        return ACCURACY_VERDICTS.index(value.verdict), value.max_rel or 0.0
    return ACCURACY_VERDICTS.index(value.verdict), compiled / max(eager, MIN_ERROR)


def _largest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


MEMORY_DIVISOR = 4
"""The copy may use the free memory divided by this."""


class NoFloat64Error(Exception):
    """The program cannot run in float64; the message gives the reason."""


class Float64Copy:
    """A float64 copy of a subject's model. Raises `NoFloat64Error` if it cannot be made.

    A function names its modules itself, so these are no copies: they have float64 values while it is `entered`.
    """

    def __init__(self, subject: Subject) -> None:
        self.module = subject.module
        self.function: Function = subject.eager
        self._widened: torch.nn.Module | None = None
        if subject.module is not None:
            _check_memory(subject)
            if module_of(subject.eager) is None:
                self._widened = subject.module
            else:
                self.module = _copy_module(subject.module)
                self.function = _same_method(subject.eager, self.module)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Give the modules of a function float64 values while the context is active."""
        module = self._widened
        tensors = [] if module is None else [*module.parameters(), *module.buffers()]
        before = [(tensor, tensor.data, tensor.grad) for tensor in tensors if tensor.is_floating_point()]
        try:
            for tensor, data, _ in before:
                tensor.grad = None
                tensor.data = data.to(torch.float64)
            yield
        finally:
            for tensor, data, gradient in before:
                tensor.grad = None
                tensor.data = data
                tensor.grad = gradient

    @staticmethod
    def call(call: Call) -> Call:
        """Return the call with its floating-point tensors in float64; a tensor passed twice is converted once."""
        converted: dict[int, torch.Tensor] = {}

        def widen(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            if id(leaf) not in converted:
                converted[id(leaf)] = leaf.detach().to(torch.float64, copy=True).requires_grad_(leaf.requires_grad)
            return converted[id(leaf)]

        return call.map_leaves(widen)


@contextmanager
def default_float64() -> Iterator[None]:
    """Make float64 the default dtype while the context is active."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def _copy_module(module: torch.nn.Module) -> torch.nn.Module:
    try:
        with torch.no_grad():
            result: torch.nn.Module = copy.deepcopy(module).to(torch.float64)
    except Exception as error:  # deepcopy runs user code
        reason = str(error).partition("\n")[0]
        raise NoFloat64Error(f"the model cannot be copied to float64: {type(error).__name__}: {reason}") from error
    return result


def _same_method(eager: Function, module: torch.nn.Module) -> Function:
    """Return the counterpart of `eager`, which is a module or one of its methods, in `module`."""
    if getattr(eager, "__self__", None) is None:
        called: Function = module
        return called
    method: Function = getattr(module, eager.__name__)
    return method


def _check_memory(subject: Subject) -> None:
    """Raise `NoFloat64Error` if a copy takes too much memory."""
    assert subject.module is not None
    tensors = [*subject.module.parameters(), *subject.module.buffers()]
    elements = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    needed = elements * 8 * (2 if subject.train else 1)
    free = free_memory(next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu")))
    if free is not None and needed > free // MEMORY_DIVISOR:
        budget = size(free // MEMORY_DIVISOR)
        raise NoFloat64Error(
            f"a float64 copy of the model takes {size(needed)}; a {MEMORY_DIVISOR}th of the free memory is {budget}"
        )


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes on a device, or None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


FLOAT64_SLOWDOWN = {"cpu": 4, "cuda": 64}
"""Worst-case slowdown of a float64 call; consumer GPUs have 1/64 of the float32 rate."""

MAX_CALL_S = 20.0
"""Calls with a longer worst-case duration are not run in float64."""

CAST = "aten._to_copy"
NO_OP = "no further op"


class Float64Reference:
    """Float64 runs of a subject's calls. `reason` is set if there is none."""

    def __init__(self, subject: Subject) -> None:
        self.reason = ""
        self._subject = subject
        self._copy: Float64Copy | None = None
        try:
            self._copy = Float64Copy(subject)
        except NoFloat64Error as error:
            self.reason = str(error)

    def run(self, call: Call, eager_s: float, eager: Observation) -> Observation | None:
        """Run a call in float64 that took `eager_s` seconds in eager mode; return None if its result is unusable."""
        if self._copy is None:
            return None
        device = next((tensor.device.type for tensor in eager.outputs.values()), "cpu")
        if eager_s * FLOAT64_SLOWDOWN.get(device, 4) > MAX_CALL_S:
            self.reason = "a float64 run would take too long"
            return None
        trace = OpTrace(widen=True)
        try:
            with default_float64(), self._copy.entered(), trace:
                exact = observe(self._subject, self._copy.function, Float64Copy.call(call), self._copy.module)
        except Exception as error:  # noqa: BLE001  user code may fail in float64 in any way
            message = str(error).partition("\n")[0]
            self.reason, self._copy = f"it does not run in float64: {type(error).__name__}: {message}", None
            return None
        if unusable := self._unusable(call, eager, exact, trace.ops):
            self.reason = unusable
            return None
        return exact

    def _unusable(self, call: Call, eager: Observation, exact: Observation, ops: list[str]) -> str:
        """Return the reason why a float64 run cannot be the reference: different dtype, random numbers or ops.

        Different ops may compute the same values (torch has several for attention), so ops are compared only if the
        values differ.
        """
        floats = {name: tensor for name, tensor in eager.outputs.items() if tensor.is_floating_point()}
        wide = {name: tensor for name, tensor in exact.outputs.items() if tensor.dtype is torch.float64}
        both = floats.keys() & wide.keys()
        if floats and not both:
            return "the program sets dtypes explicitly, so it has no float64 run"
        if all(_near(floats[name], wide[name]) for name in both):
            return ""
        if eager.random:
            return "its float64 run draws different random numbers"
        subject = self._subject
        original = _trace_ops(lambda: observe(subject, subject.eager, call, subject.module))
        divergence = _describe_divergence(original, ops)
        return divergence and f"its float64 run takes another path: {divergence}"


class OpTrace(TorchDispatchMode):  # type: ignore[misc]
    """Records the names of the ATen ops that run inside in `ops`.

    With `widen`, casts to smaller floating-point dtypes become casts to float64: a norm that always computes in float32
    would otherwise reduce the precision of the float64 run. Compilation is disabled inside: eager `torch.cond` compiles
    its branches, and code compiled under a dispatch mode would stay cached and fail in later calls.
    """

    supports_higher_order_operators = True

    def __init__(self, *, widen: bool = False) -> None:
        super().__init__()
        self.ops: list[str] = []
        self._widen = widen
        self._exit_stack = ExitStack()

    def __enter__(self) -> Self:
        self._exit_stack.enter_context(torch.compiler.set_stance("force_eager"))
        entered: Self = super().__enter__()
        return entered

    def __exit__(self, *exc_info: Any) -> None:
        super().__exit__(*exc_info)
        self._exit_stack.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name = str(getattr(func, "overloadpacket", func))
        if name not in UNCHANGED:  # a float64 run makes fewer casts
            self.ops.append(name)
        if self._widen and name == CAST and options.get("dtype") in FLOATS:
            options = {**options, "dtype": torch.float64}
        return func(*args, **options)


def _describe_divergence(original: list[str], float64: list[str]) -> str:
    """Describe the first op in which two runs differ; empty if they ran the same ops."""
    for one, other in zip_longest(original, float64):
        if one != other:
            return f"where the original dtype runs {one or NO_OP}, float64 runs {other or NO_OP}"
    return ""


def _trace_ops(run: Callable[[], object]) -> list[str]:
    """Return the ops of a run."""
    trace = OpTrace()
    with trace:
        run()
    ops: list[str] = trace.ops
    return ops


def _near(value: torch.Tensor, exact: torch.Tensor) -> bool:
    if value.shape != exact.shape:
        return False
    return rms(value.to(torch.float64) - exact) <= math.sqrt(torch.finfo(value.dtype).eps) * rms(exact)
