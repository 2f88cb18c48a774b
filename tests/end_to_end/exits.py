"""Ways to end the app at a moment of its life, and what is wrong afterwards."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.end_to_end.real_app import RESTORED, open_app, save, write_model
from tests.supervisor.runs import descendants, gone
from tests.terminal import Terminal

LONG_S = 300


class Way(NamedTuple):
    """How the app is ended."""

    signal: signal.Signals | None
    status: int
    restores: bool = True


WAYS = {
    "q": Way(None, 0),
    "ctrl-c": Way(signal.SIGINT, 130),
    "SIGTERM": Way(signal.SIGTERM, 128 + signal.SIGTERM),
    "SIGHUP": Way(signal.SIGHUP, 128 + signal.SIGHUP),
    "closed": Way(None, 128 + signal.SIGHUP, restores=False),
    "SIGKILL": Way(signal.SIGKILL, -signal.SIGKILL, restores=False),
    "crash": Way(signal.SIGSEGV, -signal.SIGSEGV, restores=False),
}
MOMENTS = ("start", "importing", "compiling", "timing", "study", "fix", "idle", "unread", "unread flood")
UNREAD = ("unread", "unread flood")
"""Moments at which the terminal does not read: after many repaints, and while the program floods its output."""
LONGEST_S = 2.0
"""Maximum seconds until the app has ended."""
HANGS = "import time\nopen(__file__ + '.begun', 'w').close()\ntime.sleep(600)\n"
COMPILES = """\
import time, torch
def slow(graph, inputs):
    open(__file__ + ".begun", "w").close()
    time.sleep(600)
def model(x):
    return x.sin()
torch.compile(model, backend=slow)(torch.ones(2))
"""
FLOODS = """\
import time
open(__file__ + ".begun", "w").close()
while True:
    print("flood " * 200, time.time(), flush=True)
"""
"""Model files for moments that would be over too soon; they create a file when the moment begins."""
SLOW = {"importing": HANGS, "compiling": COMPILES, "unread flood": FLOODS}


def reach(app: Terminal, model: Path, moment: str) -> None:
    """Wait until the app is in a moment of its life."""
    if moment == "start":
        app.read(0.2)
        return
    if moment in SLOW:
        begun, deadline = Path(f"{model}.begun"), time.monotonic() + LONG_S
        while not begun.exists() and time.monotonic() < deadline:
            app.read(0.05)
        assert begun.exists()
        if moment in UNREAD:
            stop_reading(app)
        return
    app.wait_for("1 graph break", timeout=LONG_S)
    app.wait_for("pairs", timeout=LONG_S)
    if moment == "study":
        app.type("SM")
        app.wait_for("running", timeout=LONG_S)
    elif moment == "fix":
        app.type("3h")
        app.wait_for("fix", timeout=LONG_S)
    elif moment == "idle":
        save(model, "raise SystemExit\n")
        app.wait_for("SystemExit", timeout=LONG_S)
    elif moment == "unread":
        stop_reading(app)


def stop_reading(app: Terminal) -> None:
    """Have the app paint more than an unread terminal takes."""
    for number in range(20):
        app.resize(160 - number % 2, 50)
        time.sleep(0.1)


def end(app: Terminal, name: str, moment: str) -> int:
    """End the app in one of the ways, and return its exit status."""
    way = WAYS[name]
    if name == "closed":
        app.hang_up()
        return app.process.wait(60)
    if way.signal is not None:
        app.process.send_signal(way.signal)
    else:
        app.type("qq" if moment in ("study", "fix") else "q")  # the first q leaves the screen over the panes
    status = app.process.wait(60) if moment in UNREAD else app.wait(60)
    app.read(0.2)
    return status


def problems(name: str, moment: str) -> list[str]:
    """Return what is wrong after the app was ended in this way at this moment."""
    way = WAYS[name]
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(Path(folder))
        if moment in SLOW:
            model.write_text(SLOW[moment])
        with open_app(model) as app:
            reach(app, model, moment)
            processes = descendants(app.process.pid)
            entered = b"\x1b[?1049h" in app.painted
            began = time.perf_counter()
            status = end(app, name, moment)
            seconds = time.perf_counter() - began
            # Keys and signals in the first moments meet Python itself, before the app has set up anything.
            early = moment == "start" and not entered
            wrong = {
                f"status {status}, not {way.status}": status != way.status and not early,
                "the terminal is not restored": way.restores and entered and RESTORED not in app.painted,
                "processes are left": not gone(processes, within=LONGEST_S),
                "folders are left": way.restores and bool(list((model.parent / "scratch").glob("tcexplore-*"))),
                f"it took {seconds:.1f} s": seconds > LONGEST_S,
                "a traceback": (
                    b"Traceback" in app.painted and way.restores and (not early or b"/tcexplore/" in app.painted)
                ),
            }
    return [text for text, applies in wrong.items() if applies]
