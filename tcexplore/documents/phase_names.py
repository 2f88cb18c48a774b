"""The phases of a run in words."""

from __future__ import annotations

PHASES = {
    "": "starting",
    "importing": "importing the file",
    "eager": "running eagerly",
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "compiler": "C++ or Triton compiler",
    "backward": "backward pass",
    "lowering": "lowering for the target",
    "accuracy": "comparing results",
    "assembling": "assembling kernels",
    "timing": "timing",
    "answering": "over, ready for questions",
    "comparing": "comparing with what it was",
    "switching": "lowering for another target",
}
"""The phases of a run in words; `` is before the first one."""
