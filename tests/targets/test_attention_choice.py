"""The attention kernel that the rules choose, against what an H200 chose (torch 2.11, recorded)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from tcexplore.targets.attention_choice import AttentionQuery, choose
from tcexplore.targets.device_table import find
from tests.targets.attention_cases import cases, tensors

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_every_recorded_choice():
    recorded = json.loads(gzip.decompress(Path(__file__).with_name("h200.json.gz").read_bytes()))["attention"]
    target, wrong = find("h200"), []
    for case, real in zip(cases(), recorded, strict=True):
        *qkv, mask = tensors(case, "meta")
        chosen = choose(AttentionQuery(*qkv, mask, case.dropout, case.causal, case.gqa), target)
        if chosen.value != real:
            wrong.append((case, real, chosen))
    assert wrong == []


def test_switches_of_the_person_are_followed():
    q = torch.empty(1, 2, 64, 64, dtype=torch.float16, device="meta")
    question, target = AttentionQuery(q, q, q, None, 0.0, False, False), find("a100")
    assert choose(question, target).name == "FLASH_ATTENTION"
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        assert choose(question, target).name == "EFFICIENT_ATTENTION"
