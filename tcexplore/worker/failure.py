"""Exceptions of a run as a `Failed`, attributed and located in the file; optional stages, which cost one fact each."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.time_limit import TimeLimitError, process_limit, time_limit
from tcexplore.capture.user_files import UserFiles, stack_of_text
from tcexplore.events import Blame, Failed, Location, RunStage, StageStarted
from tcexplore.events.run_events import BEFORE_COMPILE
from tcexplore.worker.failed_line import FailedLine, examine_failed_line

Result = TypeVar("Result")

FORMAT_S = 1.0
"""Seconds for the user's code to format its exception."""

LONGEST_NAME = 200
LONGEST_MESSAGE = 4_000
LONGEST_TRACEBACK = 60_000
_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_AUTOGRAD = os.path.join("torch", "autograd", "")
_LAYERS = frozenset({"_dynamo", "_inductor", "_functorch", "_subclasses"})


@dataclass(frozen=True, slots=True)
class Rule:
    """The meaning of an exception type of torch."""

    stage: RunStage | None
    """None for the stage that the run was in."""
    blame: Blame
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The cause of a failure."""

    error: BaseException
    """The exception to show: the one inside torch's wrapper, if there is one."""
    stage: RunStage
    blame: Blame
    hint: str


_LESS_MEMORY = "Smaller inputs, or a smaller batch, need less memory."
_REPORT = "This error is inside torch. Consider reporting it to pytorch/pytorch with a minimal model."
_INDUCTOR = f"If --backend aot_eager works, Inductor is at fault. {_REPORT}"
_BACKEND = "Try --backend eager, then aot_eager, to see which layer fails."
_CXX_FAILED = f"The C++ compiler rejected generated code. {_REPORT}"
_NO_CXX = (
    "Running the generated code requires a working C++ compiler; everything captured until then is shown. "
    "Install one (apt install g++), or set CXX to yours."
)
_FULLGRAPH = "fullgraph turns a graph break into an error. Without it, breaks are shown and the rest is compiled."
_FAKE = "The call works eagerly, but not with Dynamo's fake tensors."
_FAKE_ERROR = "torch._dynamo.exc.TorchRuntimeError"
_DOUBLE_BACKWARD = "does not currently support double backward"
"""Part of torch's message if compiled code is differentiated twice."""

_TWICE = (
    "torch differentiates compiled code only once. Where gradients have create_graph=True, as for a gradient penalty, "
    "call the module that was compiled instead of what torch.compile returned."
)
_DIFFERS = (
    "The same call works eagerly, also after this failure: Dynamo runs this line in another way. "
    "torch.compiler.disable on the function keeps it out of the graph."
)
_NUMPY = "Dynamo traces NumPy calls as torch ops. torch._dynamo.config.trace_numpy = False turns that off."
_NO_FAKE = re.compile(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>|unsupported operator: (\w+[:.][\w:.]+)")
"""Errors of torch that name a custom op without a fake implementation."""

_STALE_FAKE = re.compile(r"Error in op: torch\.ops\.(\w+)\.(\w+)")
"""torch's message if a custom op returns another tensor than its fake implementation."""

_NO_TRITON_DEVICE = "active drivers"
"""Part of Triton's message on a machine without a GPU."""

_TRITON = (
    "The file calls a Triton kernel, and this machine has no GPU to run it. --target h100 interprets the kernel on the "
    "CPU and shows the code for that GPU. Or take another path if the tensor is not on a GPU."
)

_NEEDS_GPU = (
    "The program requires a GPU, and this machine has none. With --target h100, is_cuda is true for your code, as on "
    "that GPU; device.type stays that of this machine."
)

_IN_NUMPY = os.path.join("torch", "_numpy") + os.sep
_RECOMPILES = "The guards pane shows which guard fails each time."
_BACKENDS = "torch._dynamo.list_backends() lists the backends of this torch."

_BAD_ARGUMENTS = 2
"""Status with which argparse and click end a program whose arguments are wrong."""
_ARGUMENTS = "Give the file's own arguments after `--`: tcexplore FILE -- --epochs 1"
_ONE_RANK = (
    "As one rank: RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 tcexplore FILE, or "
    "tcexplore run -- torchrun FILE"
)

RULES = {
    "torch._inductor.exc.InvalidCxxCompiler": Rule("compiler", "compiler", _NO_CXX),
    "torch._inductor.exc.CppCompileError": Rule("compiler", "compiler", _CXX_FAILED),
    "torch._inductor.exc.CppWrapperCodegenError": Rule("inductor", "compiler", _REPORT),
    "torch._inductor.exc.InductorError": Rule("inductor", "compiler", _INDUCTOR),
    "torch._dynamo.exc.InvalidBackend": Rule("arguments", "user", _BACKENDS),
    "torch._dynamo.exc.Unsupported": Rule("dynamo", "user", _FULLGRAPH),
    "torch._dynamo.exc.UserError": Rule("dynamo", "user"),
    "torch._dynamo.exc.RecompileError": Rule("dynamo", "user", _RECOMPILES),
    "torch._dynamo.exc.FailOnRecompileLimitHit": Rule("dynamo", "user", _RECOMPILES),
    _FAKE_ERROR: Rule("dynamo", "compiler", _FAKE),
    "torch._dynamo.exc.BackendCompilerFailed": Rule(None, "compiler", _BACKEND),
    "torch._dynamo.exc.TorchDynamoException": Rule("dynamo", "compiler", _REPORT),
    "torch.OutOfMemoryError": Rule(None, "user", _LESS_MEMORY),
}
"""Rules by qualified name, since this torch may lack some of the types."""

_PYTHON_HINTS: dict[type[BaseException], str] = {
    ModuleNotFoundError: "Install it into the Python that runs tcexplore, or start tcexplore from the file's own.",
    MemoryError: _LESS_MEMORY,
    EOFError: "A run has no standard input, so input() has nothing to read. Set the value in the file.",
    RecursionError: "A function calls itself endlessly.",
    SystemExit: "Remove the call, or put it under if __name__ == '__main__':",
    SyntaxError: "Save again when the line is complete.",
}


def to_failed(error: BaseException, stage: RunStage, user_files: UserFiles, *, eager_works: bool = False) -> Failed:
    """Return the `Failed` of a run that ended with `error`; `eager_works` if the same calls work eagerly."""
    if wrong := _guarded(lambda: error if isinstance(error, EntryError) else None, None):
        return Failed(
            stage=wrong.stage,
            blame="user",
            type="no entry" if wrong.stage == "file" else "argument",
            message=wrong.message,
            hint=wrong.hint,
            location=wrong.location,
        )
    unknown = Attribution(error, stage, "compiler" if eager_works else "user", "")
    cause = _guarded(lambda: attribute(error, stage, user_files, eager_works=eager_works), unknown)
    line = _guarded(lambda: examine_failed_line(cause.error, user_files), FailedLine())
    return Failed(
        stage=cause.stage,
        blame=cause.blame,
        type=type(cause.error).__name__[:LONGEST_NAME],
        message=_guarded(lambda: _message(cause.error, cause.stage), "") or _text(cause.error),
        location=_guarded(lambda: _location(error, user_files), None),
        values=line.values,
        hint=cause.hint or line.edit,
        traceback=_guarded(lambda: _format_traceback(error, user_files), ""),
    )


def _guarded(function: Callable[[], Result], otherwise: Result) -> Result:
    """Return the result of a function that may call methods of the user's exception, or `otherwise` if it fails."""
    try:
        with time_limit(FORMAT_S):
            return function()
    except BaseException:  # noqa: BLE001  the user's methods may raise anything, or never end
        return otherwise


def describe_error(error: BaseException, user_files: UserFiles) -> tuple[str, Location | None]:
    """Return the first line of an error's message, and the innermost line of user code that raised it, if any."""
    location = _guarded(lambda: _location(error, user_files), None)
    return _text(error).partition("\n")[0], location


def needs_gradients(error: Exception) -> bool:
    """Return whether torch's autograd raised `error` because gradients are off."""
    return isinstance(error, RuntimeError) and "does not require grad" in _text(error)


def attribute(
    error: BaseException, stage: RunStage, user_files: UserFiles, *, eager_works: bool = False
) -> Attribution:
    """Attribute an exception to user code or to a layer of the compiler."""
    inner, rule = _match_rule(error)
    if rule is RULES[_FAKE_ERROR]:
        inner = _cause_of_fake_error(inner)
    if rule is not None and (op := _op_without_fake(error)):
        return Attribution(inner, rule.stage or stage, "user", _register_fake(op))
    if rule is not None:
        blame = rule.blame if eager_works or rule.stage != "dynamo" else "user"
        hint = "" if blame == "user" and rule.hint is _FAKE else rule.hint
        return Attribution(inner, rule.stage or stage, blame, hint)
    if stale := _STALE_FAKE.search(_text(error)):
        return Attribution(error, stage, "user", _describe_fake(f"{stale[1]}::{stale[2]}"))
    if _DOUBLE_BACKWARD in _text(error):
        return Attribution(error, stage, "compiler", _TWICE)
    numpy = f"{_NUMPY} " if _in_torch_numpy(error) else ""
    if stage not in BEFORE_COMPILE and _raised_by_compiler(error, user_files):
        return Attribution(error, stage, "compiler", numpy + _REPORT)
    if eager_works:
        return Attribution(error, stage, "compiler", numpy + _DIFFERS)
    hint = next((hint for kind, hint in _PYTHON_HINTS.items() if isinstance(error, kind)), "")
    if isinstance(error, RuntimeError) and _NO_TRITON_DEVICE in _text(error):
        hint = _TRITON
    elif isinstance(error, SystemExit) and error.code == _BAD_ARGUMENTS:
        hint = _ARGUMENTS
    elif isinstance(error, ValueError) and "environment variable RANK expected" in _text(error):
        hint = _ONE_RANK
    elif not hint and stage == "eager" and _requires_gpu(error):
        hint = _NEEDS_GPU
    return Attribution(error, stage, "user", hint)


def _op_without_fake(error: BaseException) -> str:
    """Return the custom op that lacks a fake implementation, in torch's notation; empty if that isn't the error."""
    match = _NO_FAKE.search(_text(error))
    return (match[1] or match[2].replace(".", "::", 1)) if match else ""


def _requires_gpu(error: BaseException) -> bool:
    from tcexplore.targets.device_answers import requires_gpu

    return requires_gpu(error)


def _describe_fake(op: str) -> str:
    return (
        f"The fake implementation of the custom op {op} does not describe its result. The graph pane and the report "
        "name the difference; --opcheck tests the op."
    )


def _register_fake(op: str) -> str:
    return (
        f"The custom op {op} has no fake implementation. Add one with @torch.library.register_fake({op!r}): "
        "a function of the same arguments that returns an empty tensor like the result."
    )


def _match_rule(error: BaseException) -> tuple[BaseException, Rule | None]:
    """Return the rule for the exception inside torch's wrapper, or else for the wrapper."""
    inner = getattr(error, "inner_exception", None) or error.__cause__
    if inner is not None:
        innermost, rule = _match_rule(inner)
        if rule is not None:
            return innermost, rule
    for ancestor in type(error).__mro__:
        rule = RULES.get(f"{ancestor.__module__}.{ancestor.__qualname__}")
        if rule is not None:
            return error, rule
    return error, None


def _cause_of_fake_error(error: BaseException) -> BaseException:
    """Return the exception of the op that Dynamo ran with fake tensors; its own has advice and links instead.

    torch 2.15 raises its own again as a plain RuntimeError.
    """
    link: BaseException | None = error
    while link is not None and (
        type(link).__module__.startswith("torch._dynamo") or _text(link).startswith(_RAISED_AGAIN)
    ):
        link = link.__cause__ or link.__context__
    return error if link is None else link


_RAISED_AGAIN = "Dynamo failed to run FX node with fake tensors"


def _raised_by_compiler(error: BaseException, user_files: UserFiles) -> bool:
    """Return whether compiler code runs below the innermost frame of user code (above it, it always does)."""
    frames = traceback.extract_tb(error.__traceback__)
    last = max((i for i, frame in enumerate(frames) if user_files.owns(frame.filename)), default=-1)
    return any(_is_compiler(frame.filename) for frame in frames[last + 1 :]) and last < len(frames) - 1


def _in_torch_numpy(error: BaseException) -> bool:
    """Return whether torch's own NumPy raised the error, which Dynamo runs instead of NumPy."""
    return any(_IN_NUMPY in link.filename for link in traceback.extract_tb(error.__traceback__))


def _is_compiler(file: str) -> bool:
    """Return whether a file is compiler code; `eval_frame.py` is not, since it calls the user's function."""
    *folders, name = file.split(os.sep)
    return "torch" in folders and name != "eval_frame.py" and not _LAYERS.isdisjoint(folders)


def _message(error: BaseException, stage: RunStage) -> str:
    if isinstance(error, SystemExit):
        when = "while it was imported" if stage == "importing" else "during the run"
        code = _guarded(lambda: _cut(repr(error.code)), "…")
        return f"The file called sys.exit({code}) {when}."
    if isinstance(error, SyntaxError):
        return _cut(str(error.msg or "invalid syntax"))
    inner = getattr(error, "inner_exception", None)
    if inner is not None:
        return _cut(f"{type(inner).__name__}: {_text(inner)}")
    if isinstance(getattr(error, "msg", None), str):
        return _cut(error.msg)  # type: ignore[attr-defined]  # without the advice that torch appends for its developers
    return _text(error)


def _text(error: BaseException) -> str:
    name = type(error).__name__[:LONGEST_NAME]
    text = _guarded(lambda: _cut(str(error)).strip(), None)
    return f"{name} (its message could not be formatted)" if text is None else text or name


def _cut(text: str) -> str:
    """Return the beginning of a text, which may be of a class of the user's."""
    return str.__getitem__(text, slice(LONGEST_MESSAGE))


def _location(error: BaseException, user_files: UserFiles) -> Location | None:
    """Return the innermost line of user code, from torch's own record of the user stack or from the traceback."""
    for link in _chain(error):
        if isinstance(link, SyntaxError) and link.filename and user_files.owns(link.filename):
            line = link.lineno if isinstance(link.lineno, int) else 1
            return Location(os.path.abspath(link.filename), line)
        frames = user_files.frames(getattr(link, "real_stack", None)) or user_files.frames(
            traceback.extract_tb(link.__traceback__)
        )
        if frames:
            return frames[-1]
    return None


def locate_error(
    error: BaseException, call: Callable[[], object], user_files: UserFiles, otherwise: BaseException | None = None
) -> None:
    """Give an error without a line of the user the line that it is about.

    Of a backward, it is that of the forward: `call` is repeated, with torch telling where it called the op. If nothing
    tells it, the line is that of the exception `otherwise`.
    """
    import torch

    frames = traceback.extract_tb(error.__traceback__)
    if user_files.frames(frames):
        return
    stack: Any = ()
    if any(_AUTOGRAD in frame.filename for frame in frames):
        with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True, check_nan=False):
            warnings.simplefilter("always")
            with suppress(Exception):
                call()
        stack = stack_of_text("\n".join(str(warning.message) for warning in caught))
    if not stack and otherwise is not None:
        stack = traceback.extract_tb(otherwise.__traceback__)
    error.real_stack = stack  # type: ignore[attr-defined]


def is_caused_by(error: BaseException, cause: BaseException) -> bool:
    """Return whether an exception is another one, or one of its causes."""
    return any(link is cause for link in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _format_traceback(error: BaseException, user_files: UserFiles) -> str:
    """Format the traceback with the frames of user code only, or else with all frames except those of tcexplore."""
    whole = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = whole
    while link is not None:
        own = [frame for frame in link.stack if user_files.owns(frame.filename)]
        other = [frame for frame in link.stack if not frame.filename.startswith(_TCEXPLORE)]
        link.stack = traceback.StackSummary.from_list([] if isinstance(error, SyntaxError) else own or other)
        link = link.__cause__ or link.__context__
    return "".join(whole.format())[-LONGEST_TRACEBACK:]


LIMIT_S = 120.0
"""Time limit of a stage in seconds, for calls that take no time."""

LIMIT_CALLS = 100
"""Times that a stage may take the eager calls, in addition."""


class OptionalStages:
    """Runs optional stages, which call the user's code: it may raise, exit or never return."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self.eager_seconds = 0.0
        """Duration of all eager calls."""
        self.compiled = False
        """Whether the compile is over. Before, the end of the process fails the run."""
        self._facts: list[str] = []
        """The facts of the stages in progress, innermost last."""

    @property
    def limit_s(self) -> float:
        """The time limit of a stage in seconds."""
        return LIMIT_S + LIMIT_CALLS * self.eager_seconds

    def run(
        self, fact: str, symbol: str, function: Callable[..., Any], *args: Any, limit_s: float | None = None
    ) -> None:
        """Run a stage; if it fails, report `fact` as missing, with the reason.

        `limit_s` replaces the time limit; 0 for none.
        """
        limit = self.limit_s if limit_s is None else limit_s
        self._enter(fact)
        try:
            with process_limit(limit), time_limit(limit):
                function(*args)
        except TimeLimitError:
            self._hooks.report_missing(fact, symbol, f"it did not end within {limit:.0f} s")
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  the user's code may raise anything
            self._hooks.report_missing(fact, symbol, self._reason(error))
        finally:
            self._facts.pop()
            if self._facts:
                self._enter(self._facts.pop())

    def _enter(self, fact: str) -> None:
        """Tell the supervisor which fact is missing if the process ends now."""
        self._facts.append(fact)
        if self.compiled:
            self._hooks.emit(StageStarted(fact=fact))

    def _reason(self, error: BaseException) -> str:
        message, location = describe_error(error, self._user_files)
        place = f" ({os.path.basename(location.file)}, line {location.line})" if location else ""
        return f"{type(error).__name__}: {message}{place}"
