"""Machine code of a recorded H200 kernel for NVIDIA and AMD, and assembly of a C++ kernel for this machine."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from tcexplore.documents.code.instructions import stage_code
from tcexplore.events import Kernel
from tcexplore.events.target_events import KernelAssembled, KernelNotAssembled
from tcexplore.targets import assembler as assembler_module
from tcexplore.targets import assembly_stages
from tcexplore.targets.assembler import Assembler
from tcexplore.targets.cpu_assembly import compile_to_assembly
from tcexplore.targets.device_table import find_target

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def assembler() -> Iterator[Assembler]:
    assembler = Assembler()
    yield assembler
    assembler.close()


@pytest.fixture(scope="module")
def recorded() -> tuple[Kernel, list[dict[str, Any]]]:
    facts = json.loads(gzip.decompress(Path(__file__).with_name("h200.json.gz").read_bytes()))
    key = min(k for k, s in facts["sources"].items() if "gelu_native_layer_norm" in s and "def triton_per" in s)
    source = facts["sources"][key]
    name = re.findall(r"^def (triton_\w+)\(", source, re.M)[-1]
    return Kernel(graph="0/0", phase="forward", name=name, language="triton", source=source), facts["resources"][key]


def test_every_stage_to_sass_has_source_lines(assembler: Assembler, recorded: tuple[Kernel, Any]):
    kernel, real = recorded
    events = list(assembler.assemble(kernel, find_target("h200")))
    assert all(type(event) is KernelAssembled for event in events), events
    assert [stage.name for stage in events[0].stages] == ["ttir", "ttgir", "llir", "ptx", "sass"]
    source = kernel.source.split("\n")
    for stage in events[0].stages:
        assert stage.lines, stage.name
        text = stage.text.splitlines()
        assert all(1 <= n <= len(text) and 1 <= line <= len(source) for n, line in stage.lines)
    sass = events[0].stages[-1]
    loads = [source[line - 1] for n, line in sass.lines if "LDG" in sass.text.splitlines()[n - 1]]
    assert loads
    assert all("tl.load" in line for line in loads)
    assert len(events) == len(real)
    resources = events[0].resources
    assert resources is not None
    assert resources.threads == 32 * resources.num_warps
    assert 0 < resources.occupancy <= 1
    assert sum(count for _, count in resources.mix) > 50


def test_a_source_without_imports_gives_the_same_code_and_lines(assembler: Assembler, recorded: tuple[Kernel, Any]):
    kernel, _ = recorded
    lines = kernel.source.split("\n")
    cut = lines.index("@triton_heuristics.persistent_reduction(")
    short = replace(kernel, source="\n".join(lines[cut:]))
    (whole, *_), (bare, *_) = (list(assembler.assemble(k, find_target("h200"))) for k in (kernel, short))
    assert [line - cut for _, line in whole.stages[-1].lines] == [line for _, line in bare.stages[-1].lines]


def test_instructions_of_a_real_kernel_have_their_statements(assembler: Assembler, recorded: tuple[Kernel, Any]):
    kernel, _ = recorded
    source = kernel.source.split("\n")
    made = next(iter(assembler.assemble(kernel, find_target("h200"), first=1)))
    assert type(made) is KernelAssembled, made
    for stage in made.stages[-2:]:
        code = stage_code(stage)
        text = "\n".join(line.text for line in code.lines)
        assert code.hidden > 10
        assert not re.search(r"\.loc|\.file|//|/\*", text), stage.name
        assert sum(bool(line.origin) for line in code.lines) > 0.9 * code.instructions
        loads = {source[line.origin - 1] for line in code.lines if re.search(r"ld\.global|LDG", line.text)}
        assert loads
        assert all("tl.load" in statement for statement in loads)


def test_without_a_disassembler_there_is_ptx_and_a_reason(
    assembler: Assembler, recorded: tuple[Kernel, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(assembly_stages, "find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    made = next(iter(assembler.assemble(recorded[0], find_target("h200"), first=1)))
    assert type(made) is KernelAssembled, made
    assert [stage.name for stage in made.stages] == ["ttir", "ttgir", "llir", "ptx"]
    assert made.resources is None
    assert made.missing == "No SASS and no resources: nvdisasm is neither in the triton package nor on the PATH."


def test_amd_machine_code(assembler: Assembler, recorded: tuple[Kernel, Any]):
    event = next(iter(assembler.assemble(recorded[0], find_target("mi300x"))))
    assert type(event) is KernelAssembled, event
    assert event.stages[-1].name == "amdgcn"
    assert "gfx942" in event.stages[-1].text
    assert event.stages[-1].lines
    assert event.resources.registers > 0
    assert event.resources.threads % 64 == 0


@pytest.fixture
def forked_replacements(assembler: Assembler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork processes that replace another one: a new Python would import torch each time."""
    from tcexplore.worker.kernel_assembly import fork_assembler

    monkeypatch.setattr(assembler_module, "spawn_assembler", fork_assembler)
    monkeypatch.setattr(assembler, "_start", fork_assembler)


@pytest.mark.usefixtures("forked_replacements")
def test_after_a_crash_the_next_kernel_is_assembled(assembler: Assembler, recorded: tuple[Kernel, Any]):
    crash = replace(recorded[0], source="import triton, os\nos._exit(7)\n")
    wrong = replace(recorded[0], source="import triton\nk = 1 / 0\n")
    (ended,), (failed,) = (list(assembler.assemble(k, find_target("h200"))) for k in (crash, wrong))
    assert type(ended) is KernelNotAssembled
    assert "ended with exit status 7, twice, on this kernel" in ended.reason
    assert "ZeroDivisionError" in failed.reason
    assert type(next(iter(assembler.assemble(recorded[0], find_target("h200"))))) is KernelAssembled


@pytest.mark.usefixtures("forked_replacements")
def test_a_killed_process_is_replaced_and_the_kernel_assembled(recorded: tuple[Kernel, Any]):
    def start_silent(log: IO[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "input()"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    assembler = Assembler(start_silent)
    assert {type(event) for event in assembler.assemble(recorded[0], find_target("h200"), first=1)} == {KernelAssembled}
    assembler.close()


CPP = """typedef float four __attribute__((vector_size(16)));
extern "C" void kernel(const four* a, four* b) {
    for (long i = 0; i < 1024; i++) {
        b[i] = a[i] / b[i];
    }
}
extern "C" void kernel_scalar(const float* a, float* b) {
    b[0] = a[0] / b[0];
}
"""


def test_cpp_assembly_has_lines_and_vectorization():
    assembly = compile_to_assembly(CPP)
    text, source = assembly.stage.text.splitlines(), CPP.splitlines()
    assert (assembly.vectors.width, assembly.vectors.packed, assembly.vectors.scalar, assembly.vectors.vectorized) == (
        128,
        1,
        1,
        False,
    )
    divisions = [source[line - 1].strip() for n, line in assembly.stage.lines if "div" in text[n - 1]]
    assert divisions == ["b[i] = a[i] / b[i];", "b[0] = a[0] / b[0];"]
