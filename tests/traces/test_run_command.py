"""`tcexplore run`: output, exit status, signals and the end of the job, as without tcexplore."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tcexplore import traced_job
from tcexplore.traced_job import TracedJob
from tcexplore.traces.followed_trace import FollowedTrace
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.follow_engine import FollowEngine
from tests.traces.trace_app import text_of, until

WRITE_TRACE = "import os, shutil, sys; [shutil.copy(file, os.environ['TORCH_TRACE']) for file in sys.argv[1:]]"
"""A job that writes a finished trace."""

SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"


def start(folder: Path, *job: str, options: tuple[str, ...] = (), **streams: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tcexplore", "run", "--trace", str(folder), *options, "--", sys.executable, "-c"]
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *job], **{**defaults, **streams})  # type: ignore[call-overload, no-any-return]


def test_streams_and_exit_status_pass_through(tmp_path: Path):
    job = "import sys; print(sys.stdin.read().upper(), end=''); sys.stderr.write('e\\n'); sys.exit(3)"
    with start(tmp_path, job, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(b"in\n", timeout=60)
    assert (out, process.returncode) == (b"IN\n", 3)
    assert err == b"e\ntcexplore: the job compiled nothing: torch wrote no trace\n"


def test_the_folder_is_named_at_the_start_unless_the_user_chose_it(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "tcexplore",
        "run",
        "--",
        sys.executable,
        "-c",
        "import os; print(os.environ['TORCH_TRACE'])",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_TRACE"} | {
        "TMPDIR": str(tmp_path)
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder = done.stdout.strip()
    assert Path(folder).parent == tmp_path
    assert done.stderr.split("\n")[0] == f"tcexplore: tcexplore open --follow {folder}"


def test_a_flood_of_output_passes_through_unchanged(tmp_path: Path):
    job = "import sys\nfor n in range(400_000): sys.stdout.write(f'{n} {\"x\" * 40}\\n')"
    with start(tmp_path, job, stderr=subprocess.DEVNULL) as process:
        out, _ = process.communicate(timeout=60)
    expected = "".join(f"{n} {'x' * 40}\n" for n in range(400_000)).encode()
    assert hashlib.sha256(out).digest() == hashlib.sha256(expected).digest()


def test_a_signal_reaches_the_job_and_its_status_comes_back(tmp_path: Path):
    job = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint('ready', flush=True)\n"
        "signal.pause()"
    )
    with start(tmp_path, job) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7


def test_a_job_that_ends_by_a_signal_ends_tcexplore_by_it(tmp_path: Path):
    with start(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)") as process:
        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="the system cannot end a child with its parent")
@pytest.mark.parametrize("detach", [False, True])
def test_killing_tcexplore_ends_the_job_unless_it_is_detached(tmp_path: Path, *, detach: bool):
    with start(tmp_path, SLEEPER, options=("--detach",) if detach else ()) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        descriptor = os.pidfd_open(pid)
        process.kill()
        process.wait(60)
        if detach:
            assert not select.select([descriptor], [], [], 0)[0], "the job has ended"
            os.kill(pid, signal.SIGKILL)
        assert select.select([descriptor], [], [], 30)[0], "the job goes on"
        os.close(descriptor)


STUBBORN = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    print(os.getpid(), flush=True)
time.sleep(60)
"""
"""A job that ignores SIGTERM, with a worker in a session of its own, as those of torchrun."""


@pytest.mark.skipif(sys.platform != "linux", reason="the worker is found through /proc")
def test_a_worker_in_its_own_session_ends_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(traced_job, "END_S", 0.1)
    job = TracedJob([sys.executable, "-c", STUBBORN], str(tmp_path))
    job.start(capture=True)
    output = tmp_path / traced_job.STDOUT
    watch = select.poll()
    while not output.read_text().endswith("\n"):
        watch.poll(20)
    worker = os.pidfd_open(int(output.read_text()))
    job.end()
    assert select.select([worker], [], [], 30)[0], "the worker goes on"
    os.close(worker)


def test_a_summary_or_a_report_follows_the_output(traces: Path, tmp_path: Path):
    files = [str(path) for path in sorted((traces / "shape").glob("*.log"))]
    with start(tmp_path, f"{WRITE_TRACE}; print('done')", *files) as process:
        out, err = process.communicate(timeout=60)
    assert out == b"done\n"
    assert b"2 ranks, 5 graphs" in err
    assert b"ranks 0 and 1 first differ: shape at" in err
    assert f"tcexplore open {tmp_path}".encode() in err

    again = tmp_path / "again"
    with start(again, f"{WRITE_TRACE}; print('done')", *files, options=("--json",)) as process:
        out, err = process.communicate(timeout=60)
    assert err == b""
    first, last = out.splitlines()
    report = json.loads(last)
    assert first == b"done"
    assert [row["rank"] for row in report["ranks"]] == [0, 1]
    assert report["divergence"]["kind"] == "shape"
    assert (report["status"], report["error"]) == ("ok", None)


@pytest.mark.parametrize("writes_trace", [True, False])
def test_the_report_of_a_job_that_fails_says_so(traces: Path, tmp_path: Path, writes_trace: bool):
    files = [str(path) for path in sorted((traces / "same").glob("*.log"))]
    job = f"{WRITE_TRACE if writes_trace else ''}\nimport sys; sys.exit(3)"
    with start(tmp_path, job, *files, options=("--json",)) as process:
        out, _ = process.communicate(timeout=60)
    report = json.loads(out)
    assert process.returncode == 3
    assert (report["status"], report["error"]["type"]) == ("failed", "exit status 3")
    assert len(report["ranks"]) == 2 * writes_trace


def test_a_command_that_does_not_exist_is_named(tmp_path: Path):
    command = [sys.executable, "-m", "tcexplore", "run", "--trace", str(tmp_path), "--", "no-such-command"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (127, "tcexplore: no-such-command: command not found\n")


async def test_the_app_shows_the_trace_the_output_and_the_failure_of_a_job(traces: Path, tmp_path: Path):
    files = [str(path) for path in sorted((traces / "same").glob("*.log"))]
    job = TracedJob([sys.executable, "-c", f"print('hello'); {WRITE_TRACE}; sys.exit(3)", *files], str(tmp_path))
    job.start(capture=True)
    try:
        app = ExplorerApp(lambda: FollowEngine(FollowedTrace([job.folder], job.earlier), None, job))
        async with app.run_test(size=(160, 50), notifications=True) as pilot:
            await until(app, pilot, lambda: app.session.newest is not None and len(app.session.newest.graphs) == 2)
            await until(app, pilot, lambda: app.session.newest is not None and app.session.newest.failure is not None)
            assert app.session.newest is not None
            assert [output.text for output in app.session.newest.output] == ["hello\n"]
            assert "exit status 3" in text_of(app)
            assert app.engine is not None
            await app.engine.close()
    finally:
        job.end()
    assert job.status() == 3


async def test_leaving_asks_before_it_ends_the_job(tmp_path: Path):
    job = TracedJob([sys.executable, "-c", "import time; time.sleep(60)"], str(tmp_path))
    job.start(capture=True)
    try:
        app = ExplorerApp(lambda: FollowEngine(FollowedTrace([job.folder], job.earlier), None, job))
        async with app.run_test(size=(160, 50), notifications=True) as pilot:
            await until(app, pilot, lambda: app.engine is not None and bool(app.engine.job_to_end))
            await pilot.press("q")
            await until(app, pilot, lambda: "still runs" in text_of(app))
            assert job.status() is None
            assert app.is_running
            await pilot.press("escape")
            await until(app, pilot, lambda: "still runs" not in text_of(app))
            await pilot.press("q")
            await until(app, pilot, lambda: "still runs" in text_of(app))
            assert job.status() is None
            assert app.is_running
            await pilot.press("q")
            await until(app, pilot, lambda: app.return_code == 0)
            assert app.engine is not None
            await app.engine.close()
    finally:
        job.end()


RANKS = """
import os, pathlib, signal, sys
folder, go, *files = map(pathlib.Path, sys.argv[1:])
ranks = []
for rank, file in enumerate(files):
    ranks.append(os.fork())
    if not ranks[-1]:
        text = file.read_text().replace(" " + file.read_text().split(maxsplit=3)[2] + " ", f" {os.getpid()} ")
        (folder / file.name).write_text(text)
        if rank:
            open(go).read()  # a pipe that the test writes to
            os._exit(7)
        signal.pause()
os.waitpid(ranks[1], 0)
os.kill(ranks[0], signal.SIGTERM)
os.waitpid(ranks[0], 0)
line = '[rank1]:   File "/project/tests/traces/programs/seeded.py", line 40, in main'
print("[rank1]: Traceback (most recent call last):", line, "[rank1]: ValueError: bad batch", sep="\\n", file=sys.stderr)
for status, pid in zip((-15, 7), ranks):
    print(f"  exitcode  : {status} (pid: {pid})", file=sys.stderr)
sys.exit(1)
"""
"""A job of two ranks of which the second one fails: it reports on them as torchrun does."""


async def test_the_rank_that_fails_first_is_named_with_its_error_and_line(traces: Path, tmp_path: Path):
    files = [str(next((traces / "same").glob(f"*_rank_{rank}_*"))) for rank in (0, 1)]
    go, folder = tmp_path / "go", tmp_path / "trace"
    os.mkfifo(go)
    job = TracedJob([sys.executable, "-c", RANKS, str(folder), str(go), *files], str(folder))
    job.start(capture=True)
    try:
        app = ExplorerApp(lambda: FollowEngine(FollowedTrace([job.folder], job.earlier), None, job))
        async with app.run_test(size=(160, 50), notifications=True) as pilot:
            await until(app, pilot, lambda: "2 ranks identical" in text_of(app))
            go.write_text("go")
            await until(app, pilot, lambda: "UNFINISHED RANK" in text_of(app))
            await pilot.press("o")
            await until(app, pilot, lambda: "exit status 7: ValueError: bad batch" in text_of(app))
            assert "rank 1 ended early, " in text_of(app)
            assert "seeded.py:40" in text_of(app)
            assert app.engine is not None
            await app.engine.close()
    finally:
        job.end()
