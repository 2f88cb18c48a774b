"""Correct programs that `tcexplore numerics` must not accuse: samples, and models of `transformers` in three dtypes.

Run `python -m tests.benchmarks.numeric_fairness`; `study_runs.py` has its options. It prints the verdict of each, and
the seconds of the judgement. A program is right if it is judged and not accused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import Outcome, Program, judge, reasons

ROOT = Path(__file__).parents[2]
DTYPES = ("float32", "bfloat16", "float16")

MODEL = """
import torch
from transformers import {config}, {model}

torch.manual_seed(0)
config = {config}({arguments})
config._attn_implementation = "{attention}"
model = {model}(config).to(torch.{dtype}).eval()
inputs = {inputs}
"""

SMALL = "hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=512"
TEXT = "{'input_ids': torch.randint(0, 512, (2, 32)), 'use_cache': False}"
ENCODED = "{'input_ids': torch.randint(0, 512, (2, 32))}"
IMAGE = "{{'pixel_values': torch.randn(2, 3, 32, 32, dtype=torch.{dtype})}}"

MODELS: dict[str, tuple[str, str, str, str]] = {
    "llama": ("LlamaConfig", "LlamaModel", f"{SMALL}, num_key_value_heads=2", TEXT),
    "llama of 8 layers": ("LlamaConfig", "LlamaModel", f"{SMALL.replace('layers=2', 'layers=8')}", TEXT),
    "qwen2": ("Qwen2Config", "Qwen2Model", f"{SMALL}, num_key_value_heads=2", TEXT),
    "mistral": ("MistralConfig", "MistralModel", f"{SMALL}, num_key_value_heads=2", TEXT),
    "gemma": ("GemmaConfig", "GemmaModel", f"{SMALL}, num_key_value_heads=2, head_dim=16", TEXT),
    "phi": ("PhiConfig", "PhiModel", SMALL, TEXT),
    "gpt2": ("GPT2Config", "GPT2Model", "n_embd=64, n_layer=2, n_head=4, vocab_size=512", TEXT),
    "gpt neox": ("GPTNeoXConfig", "GPTNeoXModel", SMALL, TEXT),
    "bert": ("BertConfig", "BertModel", SMALL, ENCODED),
    "roberta": ("RobertaConfig", "RobertaModel", SMALL, ENCODED),
    "distilbert": ("DistilBertConfig", "DistilBertModel", "dim=64, n_layers=2, n_heads=4, hidden_dim=128", ENCODED),
    "vit": ("ViTConfig", "ViTModel", f"{SMALL.rpartition(',')[0]}, image_size=32, patch_size=8", IMAGE),
}


def programs() -> Iterator[Program]:
    """Yield the samples and the models."""
    for sample in sorted((ROOT / "samples").glob("*.py")):
        train = (False,) if sample.stem in ("script", "training_loop") else (False, True)
        for one in train:
            yield program(f"sample {sample.stem}{' backward' if one else ''}", sample.read_text(), sample, train=one)
    for name, (config, model, arguments, inputs) in MODELS.items():
        for dtype in DTYPES:
            source = MODEL.format(
                config=config, model=model, arguments=arguments, attention="sdpa" if dtype == "float32" else "eager",
                dtype=dtype, inputs=inputs.format(dtype=dtype) if inputs is IMAGE else inputs,
            )  # fmt: skip
            yield program(f"{name} {dtype}", source, train=dtype == "bfloat16")


def program(name: str, source: str, file: Path | None = None, *, train: bool) -> Program:
    """Return a program; without a file it is written to one."""

    def job(folder: Path) -> ev.Job:
        path = file or folder / f"{name.replace(' ', '_')}.py"
        if file is None:
            path.write_text(source)
        return ev.Job(
            run=1, file=str(path), source=source, config=ev.Config(train=train), time_for=0.0, profile=False,
            examine=False, numerics=True,
        )  # fmt: skip

    return Program(name, job, outcome)


def outcome(run: Snapshot) -> Outcome:
    """Return the verdict on a run; a program that was not judged is neither accused nor fair."""
    numerics, first = run.numerics, run.first_op
    if numerics is None:
        return Outcome(False, "not judged", reasons(run))
    left_out = {one.reason for one in run.kernels_judged if one.verdict == "not judged"}
    equal = [one.name for one in run.switches_tried if one.equal]
    text = f"{first.op} ({first.node}) {first.stage}" if first else ""
    said = (
        f"{numerics.verdict}, {numerics.seconds:.1f} s, {len(run.kernels_judged)} calls; "
        f"first {text}; equal with {equal}; not judged {left_out}"
    )
    return Outcome(numerics.verdict != "wrong", numerics.verdict, said)


if __name__ == "__main__":
    asyncio.run(judge(programs(), seconds_each=300))
