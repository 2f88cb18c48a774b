"""Correct programs that `tcexplore numerics` must not accuse: samples, and models of `transformers` in three dtypes.

Run `python -m tests.benchmarks.numeric_fairness`, with parts of names as arguments to run only those programs. It
prints the verdict of each, and the seconds of the judgement.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import study_runs

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


def programs(folder: Path) -> Iterator[tuple[str, ev.Job]]:
    """Yield the name and the job of each program."""
    for sample in sorted((ROOT / "samples").glob("*.py")):
        job = ev.Job(run=1, file=str(sample), source=sample.read_text())
        yield f"sample {sample.stem}", job
        if sample.stem not in ("script", "training_loop"):
            yield f"sample {sample.stem} backward", replace(job, config=ev.Config(train=True))
    for name, (config, model, arguments, inputs) in MODELS.items():
        for dtype in DTYPES:
            source = MODEL.format(
                config=config, model=model, arguments=arguments, attention="sdpa" if dtype == "float32" else "eager",
                dtype=dtype, inputs=inputs.format(dtype=dtype) if inputs is IMAGE else inputs,
            )  # fmt: skip
            file = folder / f"{name.replace(' ', '_')}_{dtype}.py"
            file.write_text(source)
            train = dtype == "bfloat16"
            yield f"{name} {dtype}", ev.Job(run=1, file=str(file), source=source, config=ev.Config(train=train))


def describe(name: str, run: Snapshot, seconds: float) -> str:
    """Return one line on a run."""
    numerics, first = run.numerics, run.first_op
    if numerics is None:
        reasons = [run.failure.message] if run.failure else [one.reason for one in run.missing_facts]
        return f"- {seconds:5.1f} s  {name}: not judged: {' '.join(reasons)[:200]}"
    left_out = {one.reason for one in run.kernels_judged if one.verdict == "not judged"}
    equal = [one.name for one in run.switches_tried if one.equal]
    mark = "✖" if numerics.verdict == "wrong" else "✔"
    text = f"{first.op} ({first.node}) {first.stage}" if first else ""
    calls = len(run.kernels_judged)
    return (
        f"{mark} {seconds:5.1f} s  {name}: {numerics.verdict}, {numerics.seconds:.1f} s, {calls} calls; "
        f"first {text}; equal with {equal}; not judged {left_out}"
    )


async def main(wanted: Sequence[str]) -> None:
    verdicts: list[str] = []
    async with study_runs() as (runs, folder):
        for name, job in programs(Path(folder)):
            if wanted and not any(part in name for part in wanted):
                continue
            judged = replace(job, time_for=0.0, profile=False, examine=False, numerics=True)
            began = time.perf_counter()
            run = (await runs.run(judged, 240)).snapshot
            print(describe(name, run, time.perf_counter() - began), flush=True)
            verdicts += [run.numerics.verdict] if run.numerics is not None else []
    print(f"accused: {verdicts.count('wrong')} of {len(verdicts)} correct programs")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
