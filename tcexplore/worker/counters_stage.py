"""Hardware counters of kernels: the job runs once more in a process that Nsight Compute launches, which counts a call.

Nsight Compute repeats a kernel, with the memory that it changes set back, until each counter has been read. So nothing
that this process has timed is disturbed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tcexplore.events import Job, Kernel, KernelAssembled, decode
from tcexplore.events.codec import HEADER, encode
from tcexplore.model_python import ModelPython
from tcexplore.processes import NoAnswerError, run_bounded
from tcexplore.targets.hardware_counters import METRICS, SECTIONS, Launch, read_launches, to_counters
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.program import Program

SYMBOL = "ncu"

LIMIT_S = 300.0
"""Time limit of the stage."""

_LARGEST = 1 << 28
"""Bytes of a report of Nsight Compute as text."""

_NOT_PERMITTED = "ERR_NVGPUCTRPERM"

_FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
"""Where NVIDIA's packages install the tool, if it is not on the PATH."""


class CountersError(Exception):
    """The machine does not count; the message says why."""


def count_kernels(job: Job, recorder: EventRecorder) -> None:
    """Emit the counters of the job's kernels. Raise `CountersError` if they cannot be read."""
    wanted = [kernel for kernel in recorder.kernels if kernel.name in job.counted_kernels]
    if not torch.cuda.is_available() or torch.version.hip:
        raise CountersError("they need an NVIDIA GPU")
    tool = _find_tool()
    with tempfile.TemporaryDirectory(prefix="tcexplore-counters-") as folder:
        file, code, report = (Path(folder, name) for name in ("job", "code", "counters.ncu-rep"))
        file.write_bytes(encode(replace(job, counted_kernels=(), marked_call=True))[HEADER.size :])
        names = "|".join(sorted({kernel.name for kernel in wanted}))
        child = ModelPython().command("tcexplore.worker.counted_run", str(file), str(code))
        _run([
            tool, "--profile-from-start", "off", "--clock-control", "none", "--target-processes", "all",
            "--kernel-name-base", "function", "--kernel-name", f"regex:^(?:{names})$", "--metrics", ",".join(METRICS),
            *(argument for section in SECTIONS for argument in ("--section", section)),
            "--force-overwrite", "--export", str(report), *child,
        ])  # fmt: skip
        if not report.exists():
            raise CountersError("no kernel of the call was counted")
        codes = {(each.graph, each.phase, each.kernel): each for each in _read_code(code)}
        pages = [_run([tool, "--import", str(report), "--csv", *page]) for page in (("--page", "raw"), SOURCE_PAGE)]
    launches = read_launches(*pages)
    for kernel in wanted:
        if (launch := _launch_of(kernel, wanted, launches)) is not None:
            recorder.emit(to_counters(kernel, launch, codes.get((kernel.graph, kernel.phase, kernel.name))))


SOURCE_PAGE = ("--page", "source", "--print-source", "sass")


def _find_tool() -> str:
    """Return the path of Nsight Compute's command line. Raise `CountersError` if it is not installed."""
    if path := shutil.which("ncu"):
        return path
    for folder in map(Path, _FOLDERS):
        if path := next(map(str, sorted(folder.glob("**/ncu"), reverse=True)), None):
            return path
    raise CountersError("Nsight Compute (ncu) is not on the PATH; it is part of NVIDIA's CUDA toolkit")


def _run(command: Sequence[str]) -> str:
    try:
        answer = run_bounded(command, LIMIT_S, most_bytes=_LARGEST)
    except NoAnswerError as error:
        raise CountersError(f"Nsight Compute {error}") from None
    text = "\n".join(part.decode("utf-8", "replace") for part in (answer.output, answer.errors))
    if _NOT_PERMITTED in text:
        raise CountersError(
            f"the driver permits no user to read the GPU's counters ({_NOT_PERMITTED}); its administrator can"
        )
    if answer.status:
        errors = [line for line in text.splitlines() if line.startswith("==ERROR==")]
        reason = errors[-1].removeprefix("==ERROR==").strip() if errors else text.strip().rpartition("\n")[2]
        raise CountersError(f"Nsight Compute ended with status {answer.status}: {reason[:500]}")
    return answer.output.decode("utf-8", "replace")


def _read_code(file: Path) -> Iterator[KernelAssembled]:
    """Yield the machine code that the counted process wrote."""
    frames = file.read_bytes()
    while frames:
        (length,) = HEADER.unpack(frames[: HEADER.size])
        body, frames = frames[HEADER.size : HEADER.size + length], frames[HEADER.size + length :]
        event = decode(body)
        if isinstance(event, KernelAssembled):
            yield event


def _launch_of(kernel: Kernel, wanted: Sequence[Kernel], launches: Sequence[Launch]) -> Launch | None:
    """Return the first launch of a kernel: kernels of one name are launched in the order of their graphs' calls.

    None if the call launched that name another number of times than its kernels have calls.
    """
    of_name = [launch for launch in launches if launch.kernel == kernel.name]
    same_name = [one for one in wanted if one.name == kernel.name]
    if len(of_name) != sum(map(_calls, same_name)):
        return None
    return of_name[sum(map(_calls, same_name[: same_name.index(kernel)]))]


def _calls(kernel: Kernel) -> int:
    return max(1, len(kernel.calls))


# ---- in the process that Nsight Compute launches


def make_marked_call(program: Program) -> None:
    """Make every call of the compiled program once more, between the marks that start and end the counting."""
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    program.call_all(program.compiled)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
