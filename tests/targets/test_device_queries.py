"""Device checks that Dynamo traces."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events.target_events import DeviceQueried
from tcexplore.targets.device_answers import record_queries

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def model(x: torch.Tensor) -> torch.Tensor:
    if x.device.type == "cuda":
        return x.half()
    return x - 1 if x.is_cuda else x * torch.ones(3, device=x.device)


def test_each_device_check_is_emitted_once_with_its_line():
    events: list[Any] = []
    hooks = Hooks(events.append)
    record_queries(hooks, UserFiles(__file__))
    try:
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="eager")
        compiled(torch.randn(3))
        compiled(torch.randn(2, 3))
    finally:
        hooks.remove()
    assert all(type(event) is DeviceQueried for event in events)
    first = model.__code__.co_firstlineno
    assert [(e.attribute, e.location.line - first, e.location.file) for e in events] == [
        ("device.type", 1, __file__),
        ("is_cuda", 3, __file__),
    ]
