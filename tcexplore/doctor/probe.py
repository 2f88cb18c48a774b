"""Asks the worker's Python what it has, in a process of its own: torch is never imported here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PATIENCE_S = 120.0

Answers = dict[str, Any]


def ask() -> Answers:
    """The answers of `tcexplore.worker.torch_probe`; where it gave none, the reason under every question."""
    command = [sys.executable, "-P", "-m", "tcexplore.worker.torch_probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        answers: Answers = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return _silent("TimeoutExpired", f"no answer within {PATIENCE_S:g} s")
    except subprocess.CalledProcessError as error:
        return _silent("crash", f"it ended with status {error.returncode}: {error.stderr.strip()[-200:]}")
    except (OSError, ValueError) as error:
        return _silent(type(error).__name__, str(error))
    return answers


def _silent(error: str, message: str) -> Answers:
    reason = {"error": error, "message": message}
    return dict.fromkeys(("torch", "triton", "compiler", "gpu", "caches", "choices"), reason)


def problem(answer: Any) -> str | None:
    """Why a question has no answer, None where it has one."""
    if isinstance(answer, dict) and "error" in answer:
        return f"{answer['error']}: {answer['message']}"
    return None
