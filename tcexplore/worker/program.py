"""The user's program, eager and compiled, its calls, the state that they change, and the state that they start from."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from inspect import signature
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.observation import Subject
from tcexplore.capture.compile_phases import ActivityTimer
from tcexplore.capture.dynamo.frame_entries import CompiledFrames, frames_begun
from tcexplore.capture.entry import Call, Entry, EntryError, collect_tensors, modules_of
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.cuda_graphs import begins_steps
from tcexplore.capture.module_paths import module_of
from tcexplore.capture.python_state import PythonState, argument_state, copy_small, set_values
from tcexplore.capture.random_state import RandomState
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CallMade, Config, GradMode, GradReason, Job, Variant
from tcexplore.timing.workload import Workload
from tcexplore.worker.failure import OptionalStages, needs_gradients
from tcexplore.worker.precision import in_precision, with_memory_format
from tcexplore.worker.regional_compile import compile_target
from tcexplore.worker.torch_settings import seed

Function = Callable[..., Any]


class _Metadata(NamedTuple):
    """Properties of an input that a call may change in place: `x.t_()`, `x.requires_grad_()`."""

    strides: tuple[tuple[int, ...], tuple[int, ...], int] | None
    """Sizes, strides and offset; None for a tensor without strides."""
    requires_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Metadata:
        return cls(_strides(tensor), tensor.requires_grad)

    def restore(self, tensor: torch.Tensor) -> None:
        """Restore the properties of the tensor; its values stay."""
        if self.strides is not None and _strides(tensor) != self.strides:
            tensor.as_strided_(*self.strides)
        if tensor.is_leaf and tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)


def _inference_changed(tensor: torch.Tensor, original: torch.Tensor) -> bool:
    """Return whether an inference tensor, which does not count its changes, has other values."""
    return tensor.is_inference() and not torch.equal(tensor, original)


def _strides(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


class Program:
    """Calls the entry with the file's inputs, which `restore` resets between calls.

    Exceptions of `torch.compile` for invalid arguments propagate.
    """

    def __init__(
        self,
        entry: Entry,
        config: Config,
        module: ModuleType,
        pause_observers: Callable[[], AbstractContextManager[None]] = nullcontext,
        eagerly: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        """Compile the entry; `pause_observers` returns a context for calls of anything but the compiled program.

        `eagerly` returns the one for eager calls; None for the same.
        """
        self.entry = entry
        context = self._context = entry.context
        self.train = config.train or bool(context and context.gradients)
        self.grad = self.train or bool(config.grad) or bool(context and context.grad)
        """Whether calls are made with the file's own grad mode, not under `torch.no_grad()`."""
        self._pause_observers = pause_observers
        self._eagerly = eagerly or pause_observers
        self._compiled_again: list[Function] = []
        """The program as it was compiled with other settings."""
        self.config = config
        self.entry = entry = with_memory_format(entry, self.module, config)
        self._inputs = [(tensor, tensor.detach().clone()) for tensor in collect_tensors(entry.calls)]
        self._objects = argument_state(pytree.tree_leaves([(call.args, dict(call.kwargs)) for call in entry.calls]))
        # The file's own compile is of the whole model.
        own = entry.compiled if config.regions == "whole" else None
        # Not by its truth, which is its length if it is a compiled module.
        compiled = compile_target(entry.target, self.module, config) if own is None else own
        self.eager, self.compiled = (in_precision(each, self.device, config) for each in (entry.target, compiled))
        # A script's `loss` is a value.
        self._loss: Function = (getattr(module, "loss", None) if context is None else None) or mean_of_floats
        self._metadata = [_Metadata.of(tensor) for tensor, _ in self._inputs]
        self._versions = self._read_versions()
        self._begins_steps = begins_steps()

    def call(self, function: Function, call: Call) -> Any:
        """Make one call, with its backward pass for `train`. Observers see only calls of the compiled program."""
        self._begin_step()
        with self._around(function):
            if self.train:
                return self._call_with_backward(function, call)
            with self.grad_context():
                return self._make(function, call)

    def _begin_step(self) -> None:
        """Begin a step of CUDA graphs, as the script did; without one, torch records each call after the last one."""
        if self._begins_steps:
            torch.compiler.cudagraph_mark_step_begin()

    def _around(self, function: Function) -> AbstractContextManager[None]:
        if function is self.compiled:
            return nullcontext()
        return self._pause_observers() if function in self._compiled_again else self._eagerly()

    def _make(self, function: Function, call: Call) -> Any:
        if self._context is not None:
            call = self._context.arguments(call)
        return function(*call.args, **call.kwargs)

    def _call_with_backward(self, function: Function, call: Call) -> Any:
        output = self.forward(function, call)
        if (gradients := self._gradients_of(output)) is not None:
            torch.autograd.backward(*gradients)
            return output
        loss = self._loss(output)
        loss.backward()
        return output

    def forward(self, function: Function, call: Call) -> Any:
        """Make the forward of a call with a backward."""
        with nullcontext() if self._context is None else self._context.modes():
            return self._make(function, call)

    def _gradients_of(self, output: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
        """Return outputs with the gradients that came for them in the script; None if there are none of their sizes."""
        if self._context is None:
            return None
        leaves = pytree.tree_leaves(output)
        pairs = [
            (leaf, gradient.to(leaf.dtype))
            for position, gradient in self._context.gradients.items()
            if position < len(leaves) and isinstance(leaf := leaves[position], torch.Tensor)
            if leaf.requires_grad and leaf.shape == gradient.shape
        ]
        return ([leaf for leaf, _ in pairs], [gradient for _, gradient in pairs]) if pairs else None

    def grad_context(self) -> AbstractContextManager[object]:
        """Return a context with the modes of the calls; `forward` sets those of a captured call with a backward."""
        if self._context is not None and not self.train:
            return self._context.modes()
        return nullcontext() if self.grad else torch.no_grad()

    @property
    def requires_grad(self) -> bool:
        """Whether an input or a parameter requires gradients, so that the grad mode changes the graph."""
        inputs = any(metadata.requires_grad for metadata in self._metadata)
        return inputs or any(parameter.requires_grad for parameter in self._parameters())

    def restore(self) -> None:
        """Reset inputs that a call changed, and drop gradients."""
        if self._objects is not None:
            self._objects.restore()
        mutated = self.mutated()
        with torch.no_grad():
            for (tensor, _), metadata in zip(self._inputs, self._metadata, strict=True):
                metadata.restore(tensor)
            for tensor, original in mutated:
                with torch.inference_mode() if tensor.is_inference() else nullcontext():
                    tensor.copy_(original)
        self._versions = self._read_versions()
        if self.grad:
            for tensor in (*self._parameters(), *(tensor for tensor, _ in self._inputs)):
                tensor.grad = None

    @property
    def restored(self) -> frozenset[int]:
        """The ids of the tensors that `restore` sets back."""
        inside = self._objects.copied if self._objects is not None else ()
        return frozenset(id(tensor) for tensor in (*(tensor for tensor, _ in self._inputs), *inside))

    def mutated(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the inputs that changed since the last `restore`, each with its original."""
        pairs = zip(self._inputs, self._versions, self._read_versions(), strict=True)
        return [pair for pair, before, after in pairs if before != after or _inference_changed(*pair)]

    def workload(self, mutates: bool) -> Workload:
        """Return all calls as one unit to time; `mutates` if a call changes its inputs."""
        return Workload(
            eager=self._timed(self.eager),
            compiled=self._timed(self.compiled),
            context=self.grad_context,
            reset=self.restore if mutates or self.grad or self._objects is not None else None,
            calls=len(self.entry.calls),
            train=self.train,
            device=self.device,
        )

    def subject(self, state: PythonState | None = None) -> Subject:
        """Return both sides for a comparison, also of the Python state if it is given."""
        return Subject(
            eager=self.eager,
            compiled=self.compiled,
            calls=self.entry.calls,
            call=self.call,
            restore=self.restore,
            seed=partial(seed, self.config.seed) if self._context is None else self._context.seed,
            train=self.train,
            module=self.parameters_module,
            unrandomized=self._unrandomized if self.config.backend == "inductor" else None,
            state=state,
        )

    def compile_for_mode(self, gradients: bool) -> Function:
        """Compile the program once more, for calls in another mode: with Dynamo, for `gradients` with AOTAutograd too.

        The calls as configured compare the kernels. Without gradients, AOTAutograd has no other graph to make.
        """
        backend = "aot_eager" if gradients and self.config.backend != "eager" else "eager"
        function: Function = torch.compile(self.eager, backend=backend, dynamic=self.config.dynamic)
        self._compiled_again.append(function)
        return function

    def _unrandomized(self, warm_up: Callable[[Function], None]) -> Function:
        """Compile the program once more, with random numbers drawn as in eager mode, not by Inductor's generator.

        The sizes of blocks are not searched: that takes most of the time of a compile with coordinate descent.
        """
        config = self.config
        compared = {"fallback_random": True, "coordinate_descent_tuning": False}
        options = {**torch._inductor.list_mode_options(config.mode, config.dynamic), **compared}
        # Since torch 2.13, separate cache entries neither count towards the program's limit nor cause its recompiles.
        isolated = {"isolate_recompiles": True} if "isolate_recompiles" in signature(torch.compile).parameters else {}
        function: Function = torch.compile(
            self.eager, options=options, dynamic=config.dynamic, fullgraph=config.fullgraph, **isolated
        )
        self._compiled_again.append(function)
        warm_up(function)
        return function

    def call_all(self, function: Function) -> None:
        """Make every call once."""
        for call in self.entry.calls:
            self.call(function, call)

    def _timed(self, function: Function) -> Function:
        """Return a function that makes every call, with minimal overhead, since the overhead is timed too."""
        if self.train:
            calls = [partial(self._call_with_backward, function, call) for call in self.entry.calls]
        elif self._context is not None and self._context.written_inputs:
            calls = [partial(self._make, function, call) for call in self.entry.calls]
        else:
            calls = [partial(function, *call.args, **call.kwargs) for call in self.entry.calls]
        if self._begins_steps:
            calls = [partial(_call_in_turn, (self._begin_step, call)) for call in calls]
        return calls[0] if len(calls) == 1 else partial(_call_in_turn, calls)

    def _read_versions(self) -> list[tuple[int, bool]]:
        # Inference tensors have no version.
        return [(0 if tensor.is_inference() else tensor._version, tensor.requires_grad) for tensor, _ in self._inputs]

    @property
    def module(self) -> torch.nn.Module | None:
        """The module that has the parameters; None for a function."""
        return module_of(self.entry.target)

    @cached_property
    def parameters_module(self) -> torch.nn.Module | None:
        """The module with the parameters that the calls use; of a function, one that has all modules that it names."""
        if self.module is not None:
            return self.module
        named = modules_of(self.entry.target, self.entry.calls)
        if not named:
            return None
        around = torch.nn.Module()
        for name, module in named.items():
            around.add_module(name, module)
            around.training = module.training
        return around

    def weights(self) -> list[torch.Tensor]:
        """Return the parameters and buffers that the calls use, without those that have no memory.

        A module without them stands for its code, and is called with the parameters as arguments.
        """
        module = self.parameters_module
        weights = [] if module is None else [*module.parameters(), *module.buffers()]
        return [tensor for tensor in weights if not tensor.is_meta]

    def tensors(self) -> list[torch.Tensor]:
        """Return the input tensors."""
        return [tensor for tensor, _ in self._inputs]

    def _parameters(self) -> list[torch.Tensor]:
        return list(self.parameters_module.parameters()) if self.parameters_module is not None else []

    @property
    def device(self) -> torch.device:
        """The first device of the inputs and parameters that is not the CPU, else the CPU."""
        tensors = (*(tensor for tensor, _ in self._inputs), *self._parameters())
        return next((t.device for t in tensors if t.device.type not in ("cpu", "meta")), torch.device("cpu"))


def _call_in_turn(calls: Sequence[Function]) -> None:
    for call in calls:
        call()


def mean_of_floats(output: Any) -> torch.Tensor:
    """Return the default loss: the sum of the means of all floating-point outputs that require a gradient.

    Raise `EntryError` if there is no such output.
    """
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    floats = [_at_least_float(leaf).mean() for leaf in leaves if leaf.is_floating_point()]
    if not floats:
        raise EntryError(
            "--train needs a floating-point output that depends on a tensor that requires a gradient.",
            "Add parameters to the model, requires_grad=True to an input, or a function loss(output) to the file.",
            "arguments",
        )
    return sum(floats[1:], start=floats[0])


def _at_least_float(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype is torch.float64 else tensor.float()


class ProgramCalls:
    """Makes the calls of a program, and emits their durations and compiles."""

    def __init__(self, job: Job, hooks: Hooks, stages: OptionalStages, activity_timer: ActivityTimer) -> None:
        self._job = job
        self._hooks = hooks
        self._stages = stages
        self._activity_timer = activity_timer
        self.eager_works = False
        """Whether the calls ran without the compiler."""
        self.mutates = False
        """Whether a call changed its inputs."""
        self.eager_compiles = False
        """Whether torch compiled parts of an eager call, such as `torch.cond`."""

    def make_eager(self, program: Program, frames: CompiledFrames) -> None:
        """Make the eager calls, from the state that the compiled ones started from."""
        begun = frames_begun()
        self._make(program, frames, "eager")
        self.eager_works = True
        self.eager_compiles = frames_begun() != begun

    def emit_grad_mode(self, program: Program) -> None:
        """Emit the grad mode of the calls, and why it was chosen."""
        chosen: GradReason = "inference" if self._job.config.grad is None else "requested"
        needed = program.grad and chosen == "inference"
        reason: GradReason = "training" if program.train else "needed" if needed else chosen
        self._hooks.emit(GradMode(enabled=program.grad, reason=reason, matters=program.requires_grad))

    def needs_gradients(self, program: Program, error: Exception) -> bool:
        """Return whether an eager call failed only because the run turned gradients off."""
        return not program.grad and self._job.config.grad is None and needs_gradients(error)

    def check_custom_ops(self, program: Program) -> None:
        """Make the eager calls again, and check the custom ops that they use."""
        from tcexplore.accuracy.custom_op_checks import check_custom_ops

        opcheck = self._job.config.opcheck
        with self._hooks.paused():
            for checked in check_custom_ops(partial(program.call_all, program.eager), opcheck=opcheck):
                self._hooks.emit(checked)

    def make_compiled(self, program: Program, frames: CompiledFrames) -> None:
        """Make the compiled calls, once for each pass of the job."""
        for _ in range(self._job.passes):
            self._make(program, frames, "compiled")

    def _make(self, program: Program, frames: CompiledFrames, variant: Variant) -> None:
        """Make every call once, in order."""
        function: Callable[..., Any] = program.eager if variant == "eager" else program.compiled
        for index, call in enumerate(program.entry.calls):
            compiles, known = frames.count, len(frames.graphs)
            self._activity_timer.begin_call()
            start = time.perf_counter()
            program.call(function, call)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            self._stages.eager_seconds += seconds if variant == "eager" else 0.0
            compiles, graphs = frames.count - compiles, tuple(frames.graphs[known:])
            event = CallMade(index=index, variant=variant, seconds=seconds, compiles=compiles, graphs=graphs)
            if compiles:
                event = replace(event, **self._activity_timer.call_seconds())  # type: ignore[arg-type]
            self._hooks.emit(event)
            self.mutates = self.mutates or bool(program.mutated())
            program.restore()


LARGEST_COPIED = 64 << 10
"""Bytes of a tensor above which its values are not copied: to copy a megabyte delays the first graph by 1 ms.

Torch counts the writes to a tensor, so a larger one that was changed is known. The exception is batch norm, whose
statistics are small.
"""


def user_state(
    model: torch.nn.Module | None,
    file: ModuleType,
    user_files: UserFiles,
    loaded: Collection[str],
    *,
    largest_copied: int | None = None,
    restored: Collection[int] = (),
) -> PythonState:
    """Return the Python state of a program that was just imported: of its model, and of the user's globals.

    `loaded` are the names of modules imported before the model file, the last two are those of `PythonState`.
    """
    roots: dict[str, object] = {} if model is None else {"self": model}
    # Not those of a library that defines the model: it has hundreds of modules.
    files = {user_files.file, *user_files.imported(since=loaded)}
    for name, imported in (*sys.modules.items(), (file.__name__, file)):
        source = getattr(imported, "__file__", None)
        if (name not in loaded or imported is file) and source and os.path.abspath(source) in files:
            roots[name] = imported

    def owned(value: Any) -> bool:
        source = getattr(sys.modules.get(getattr(value, "__module__", None) or ""), "__file__", None) or ""
        return bool(source) and user_files.owns(os.path.abspath(source))

    return PythonState(roots, owned, largest_copied=largest_copied, restored=restored)


class ProgramState:
    """Python state, parameters, buffers and random generators before the program's first call.

    The arguments are those of `user_state`. A script's state no longer belongs to the graphs of its steps.
    """

    def __init__(
        self,
        program: Program,
        file: ModuleType,
        user_files: UserFiles,
        loaded: Collection[str],
        *,
        largest_copied: int = LARGEST_COPIED,
    ) -> None:
        model = program.module
        self._program = program
        self._python = user_state(
            model, file, user_files, loaded, largest_copied=largest_copied, restored=program.restored
        )
        if program.entry.context is not None:
            self._python.detach()
        self._random = RandomState()
        self._copies, self._versions = copy_small(_registered(model), largest_copied)

    def restore(self) -> tuple[str, ...]:
        """Set inputs and state back, and return the paths of what has changed and cannot be set back."""
        self._program.restore()
        self._python.restore()
        with torch.no_grad():
            for tensor, values in self._copies:
                set_values(tensor, values)
                if tensor.grad_fn is not None and not tensor._is_view():
                    # A buffer that was updated with gradients would keep the graph of the calls.
                    tensor.detach_()
        self._random.restore()
        return (*self._python.not_restored(), *self._versions.changed())


def _registered(module: torch.nn.Module | None) -> Iterator[tuple[str, torch.Tensor]]:
    if module is not None:
        yield from module.named_parameters()
        yield from module.named_buffers()
