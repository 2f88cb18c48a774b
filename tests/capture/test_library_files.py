"""Libraries of a compile that was ended: none is left behind in torch's cache, and an empty one is replaced."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch._inductor import codecache
from torch._inductor.cpp_builder import CppBuilder, CppOptions
from torch._inductor.exc import CppCompileError
from torch.utils._filelock import FileLock

from tcexplore.capture.inductor import library_files
from tests.capture.compiling import watching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LINKER = """#!/bin/sh
# While the file `ended` is there: like a linker that is ended while it writes.
test -e "{folder}/ended" || exec /usr/bin/env g++ "$@"
while test "$1" != -o; do shift; done
: > "$2"
exit 1
"""


@pytest.fixture
def builder(tmp_path: Path) -> CppBuilder:
    """Return what compiles `answer.so`, with a linker that is ended at first."""
    compiler = tmp_path / "g++"
    compiler.write_text(LINKER.format(folder=tmp_path))
    compiler.chmod(0o755)
    (tmp_path / "answer.cpp").write_text('extern "C" int answer() { return 42; }')
    (tmp_path / "ended").touch()
    options = CppOptions(compiler=str(compiler))
    return CppBuilder("answer", str(tmp_path / "answer.cpp"), options, output_dir=str(tmp_path))


def compile_library(builder: CppBuilder) -> None:
    target = builder.get_target_file_path()
    codecache._worker_compile_cpp(f"{target}.lock", (builder,))


@contextlib.contextmanager
def hooked() -> Iterator[None]:
    with watching(__file__, traced=False, modules=(library_files,)) as events:
        yield
    assert not events, "this torch has what the hooks need"


def answer_of(builder: CppBuilder) -> int:
    library = ctypes.CDLL(builder.get_target_file_path())
    return int(library.answer())


def test_a_compile_that_is_ended_leaves_no_library(builder: CppBuilder, tmp_path: Path):
    library = tmp_path / "answer.so"
    with hooked():
        with pytest.raises(CppCompileError):
            compile_library(builder)
        assert not library.exists()
        (tmp_path / "ended").unlink()
        compile_library(builder)
        assert library.exists()
        assert not library.with_name(f"answer.so{library_files.PART}").exists()
    assert answer_of(builder) == 42


def test_processes_without_hooks_of_a_run_write_whole_libraries_too(builder: CppBuilder, tmp_path: Path):
    with library_files.whole_libraries(), pytest.raises(CppCompileError):
        compile_library(builder)
    assert not (tmp_path / "answer.so").exists()
    with pytest.raises(CppCompileError):
        compile_library(builder)
    assert (tmp_path / "answer.so").exists(), "as torch does it"


def test_an_empty_library_of_an_earlier_program_is_compiled_again(builder: CppBuilder, tmp_path: Path):
    with pytest.raises(CppCompileError):
        compile_library(builder)
    (tmp_path / "ended").unlink()
    compile_library(builder)
    with pytest.raises(OSError, match="file too short"):
        answer_of(builder)  # what torch itself makes of it
    with hooked():
        compile_library(builder)
    assert answer_of(builder) == 42


def test_a_library_that_somebody_writes_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library, lock = tmp_path / "answer.so", str(tmp_path / "lock")
    library.touch()
    monkeypatch.setattr(library_files, "LOCK_S", 0.01)
    with FileLock(lock):
        library_files.remove_empty(lock, [str(library)])
    assert library.exists()
    library_files.remove_empty(lock, [str(library)])
    assert not library.exists()
