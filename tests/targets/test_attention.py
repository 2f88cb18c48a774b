"""The attention kernel that the rules pick, compared with choices recorded on an H200 (torch 2.11)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from tcexplore.targets.attention import AttentionQuery, choose_backend
from tcexplore.targets.device_table import find_target
from tests.targets.attention_cases import cases, tensors

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_the_rules_match_every_recorded_choice():
    recorded = json.loads(gzip.decompress(Path(__file__).with_name("h200.json.gz").read_bytes()))["attention"]
    target, wrong = find_target("h200"), []
    for case, real in zip(cases(), recorded, strict=True):
        query, key, value, mask = tensors(case, "meta")
        chosen = choose_backend(AttentionQuery(query, key, value, mask, case.dropout, case.causal, case.gqa), target)
        if chosen.value != real:
            wrong.append((case, real, chosen))
    assert wrong == []


def test_the_users_backend_switches_apply():
    q = torch.empty(1, 2, 64, 64, dtype=torch.float16, device="meta")
    query, target = AttentionQuery(q, q, q, None, 0.0, False, False), find_target("a100")
    assert choose_backend(query, target).name == "FLASH_ATTENTION"
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        assert choose_backend(query, target).name == "EFFICIENT_ATTENTION"
