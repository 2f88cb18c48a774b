"""Whose an exception is, by its type: the user's, or the compiler's and of which layer."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass

from tcexplore.capture.user_files import UserFiles

BEFORE_COMPILE = ("file", "importing", "arguments", "eager")
"""Phases in which no compiler has run yet: what is raised there is the user's."""

_LAYERS = frozenset({"_dynamo", "_inductor", "_functorch", "_subclasses"})
USER, COMPILER = "user", "compiler"


@dataclass(frozen=True, slots=True)
class Rule:
    """What an exception type of torch's means. An empty stage is the phase the run was in."""

    stage: str
    blame: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error` is the one to show: inside torch's wrapper, where there is one."""

    error: BaseException
    stage: str
    blame: str
    hint: str


_LESS_MEMORY = "Smaller inputs, or a smaller batch, need less."
_REPORT = "This is inside torch. A smaller model that still shows it makes a good report to pytorch/pytorch."
_INDUCTOR = f"Does --backend aot_eager work? Then it is Inductor's. {_REPORT}"
_BACKEND = "Try --backend eager, then aot_eager, to see which layer fails."
_CXX_REFUSED = f"The C++ compiler refused generated code. {_REPORT}"
_NO_CXX = (
    "A working C++ compiler is needed to run what was generated; what was captured is shown all the same. "
    "Install one (apt install g++), or set CXX to yours."
)
_FULLGRAPH = "fullgraph makes a graph break an error. Without it the breaks are shown and the rest is compiled."
_FAKE = "The call works eagerly, but not on Dynamo's fake tensors: a custom op may lack its fake implementation."
_RECOMPILES = "The guards pane shows which guard fails each time."
_BACKENDS = "torch._dynamo.list_backends() has those of this torch."

RULES = {
    "torch._inductor.exc.InvalidCxxCompiler": Rule("compiler", COMPILER, _NO_CXX),
    "torch._inductor.exc.CppCompileError": Rule("compiler", COMPILER, _CXX_REFUSED),
    "torch._inductor.exc.CppWrapperCodegenError": Rule("inductor", COMPILER, _REPORT),
    "torch._inductor.exc.InductorError": Rule("inductor", COMPILER, _INDUCTOR),
    "torch._dynamo.exc.InvalidBackend": Rule("arguments", USER, _BACKENDS),
    "torch._dynamo.exc.Unsupported": Rule("dynamo", USER, _FULLGRAPH),
    "torch._dynamo.exc.UserError": Rule("dynamo", USER),
    "torch._dynamo.exc.RecompileError": Rule("dynamo", USER, _RECOMPILES),
    "torch._dynamo.exc.FailOnRecompileLimitHit": Rule("dynamo", USER, _RECOMPILES),
    "torch._dynamo.exc.TorchRuntimeError": Rule("dynamo", COMPILER, _FAKE),
    "torch._dynamo.exc.BackendCompilerFailed": Rule("", COMPILER, _BACKEND),
    "torch._dynamo.exc.TorchDynamoException": Rule("dynamo", COMPILER, _REPORT),
    "torch.OutOfMemoryError": Rule("", USER, _LESS_MEMORY),
}
"""By qualified name, so that a type which this torch does not have costs nothing."""

_EVERYDAY: dict[type[BaseException], str] = {
    ModuleNotFoundError: "Install it into the Python that runs tcexplore, or start tcexplore from the file's own.",
    MemoryError: _LESS_MEMORY,
    EOFError: "A run has no standard input: input() finds nothing to read. Set the value in the file.",
    RecursionError: "A function calls itself without an end.",
    SystemExit: "Leave the call out, or put it under if __name__ == '__main__':",
    SyntaxError: "Save again when the line is complete.",
}


def judge(error: BaseException, phase: str, project: UserFiles, *, eager_done: bool) -> Verdict:
    """Whose `error` is, and the layer it came from."""
    inner, rule = _ruled(error)
    if rule is not None:
        blame = rule.blame if eager_done or rule.stage != "dynamo" else USER
        return Verdict(inner, rule.stage or phase, blame, rule.hint)
    if phase not in BEFORE_COMPILE and _raised_by_compiler(error, project):
        return Verdict(error, phase, COMPILER, _REPORT)
    return Verdict(error, phase, USER, _everyday(error))


def _ruled(error: BaseException) -> tuple[BaseException, Rule | None]:
    """The rule for torch's wrapper or, more telling, for what it wraps."""
    inner = getattr(error, "inner_exception", None) or error.__cause__
    if inner is not None:
        found, rule = _ruled(inner)
        if rule is not None:
            return found, rule
    for ancestor in type(error).__mro__:
        rule = RULES.get(f"{ancestor.__module__}.{ancestor.__qualname__}")
        if rule is not None:
            return error, rule
    return error, None


def _raised_by_compiler(error: BaseException, project: UserFiles) -> bool:
    """Whether compiler code is at work below the user's innermost frame (above it, it always is)."""
    frames = traceback.extract_tb(error.__traceback__)
    last = max((i for i, frame in enumerate(frames) if project.owns(frame.filename)), default=-1)
    return any(_is_compiler(frame.filename) for frame in frames[last + 1 :]) and last < len(frames) - 1


def _is_compiler(file: str) -> bool:
    """`eval_frame.py` is none: it calls the user's function and the compiled code alike."""
    *folders, name = file.split(os.sep)
    return "torch" in folders and name != "eval_frame.py" and not _LAYERS.isdisjoint(folders)


def _everyday(error: BaseException) -> str:
    return next((hint for kind, hint in _EVERYDAY.items() if isinstance(error, kind)), "")
