"""Correct programs that `tcexplore numerics` must not accuse: samples, and models of `transformers` in three dtypes.

Run `python -m tests.benchmarks.numeric_fairness`; `study_runs.py` has its options. It prints the verdict of each, and
the seconds of the judgement. A program is right if it is judged and not accused.

With `--device cuda --dtypes float32,tf32,bfloat16,float16` it runs on a GPU, there with further programs: templates of
matrix products, atomics, convolutions, FlexAttention, a Triton kernel of the user. `tf32` is float32 with TF32 on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import Outcome, Program, judge, reasons, study_options
from tests.user_kernel_programs import FLEX, TRITON

ROOT = Path(__file__).parents[2]
DTYPES = ("float32", "bfloat16", "float16")
TF32 = "tf32"

NOT_TRAINED = ("attention", "entropy", "function", "graph_breaks", "not_breaks")
"""Samples without a gradient."""

PRECISION = """import torch
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.allow_tf32 = True
"""

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
TEXT = "{{'input_ids': torch.randint(0, 512, (2, 32)), 'use_cache': False}}"
ENCODED = "{{'input_ids': torch.randint(0, 512, (2, 32))}}"
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


GPU_PROGRAMS = {
    "atomics": """
import torch

torch.manual_seed(0)

def model(x, i):
    return torch.zeros(512, dtype=x.dtype, device=x.device).index_add(0, i, x.exp()) * 2

inputs = (torch.randn(1 << 18, dtype=torch.{dtype}, requires_grad=True), torch.randint(0, 512, (1 << 18,)))
""",
    "embedding": """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(64, 128), torch.nn.LayerNorm(128), torch.nn.GELU()).to(torch.{dtype})
inputs = (torch.randint(0, 64, (32, 256)),)
""",
    "convolutions": """
import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Conv2d(8, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU(), nn.Conv2d(32, 32, 3, groups=32)]
layers += [nn.MaxPool2d(2), nn.Flatten()]
model = nn.Sequential(*layers, nn.Linear(32 * 15 * 15, 64), nn.Softmax(-1)).to(torch.{dtype})
inputs = (torch.randn(8, 8, 32, 32, dtype=torch.{dtype}),)
""",
    "large sums": """
import torch

torch.manual_seed(0)

def model(x, w):
    h = torch.nn.functional.softmax(x @ w, -1)
    return h.var(-1), (h * h).sum(), torch.sigmoid(h * 500 - 40), torch.logsumexp(h, 0)

inputs = tuple(torch.randn(size, 4096, dtype=torch.{dtype}, requires_grad=True) for size in (512, 4096))
""",
}
"""Programs that are judged on a GPU only."""

TEMPLATES = """
import torch

torch.manual_seed(0)
layers = [torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers).to(torch.{dtype})
inputs = (torch.randn(128, 256, dtype=torch.{dtype}),)
"""

TUNED = ("max_autotune=True", "max_autotune_gemm_backends='TRITON'")
"""Settings of Inductor with which matrix products are templates of Triton."""


def programs(device: str = "cpu", dtypes: Sequence[str] = DTYPES) -> Iterator[Program]:
    """Yield the samples and the models."""
    config = ev.Config(device=None if device == "cpu" else device)
    for sample in sorted((ROOT / "samples").glob("*.py")):
        script = sample.stem in ("script", "training_loop")
        if script and device != "cpu":
            continue
        for train in (False,) if script or sample.stem in NOT_TRAINED else (False, True):
            name = f"sample {sample.stem}{' backward' if train else ''}"
            yield program(name, sample.read_text(), replace(config, train=train), sample)
    for name, (config_name, model, arguments, inputs) in MODELS.items():
        for dtype in dtypes:
            fused = dtype in ("float32", TF32) or (dtype == "bfloat16" and device != "cpu")
            source = MODEL.replace("{inputs}", inputs).format(
                config=config_name, model=model, arguments=arguments, attention="sdpa" if fused else "eager",
                dtype=_torch_dtype(dtype),
            )  # fmt: skip
            yield program(f"{name} {dtype}", _with_precision(source, dtype), _training(config, dtype))
    if device != "cpu":
        yield from gpu_programs(config, dtypes)


def gpu_programs(config: ev.Config, dtypes: Sequence[str]) -> Iterator[Program]:
    """Yield the programs that are judged on a GPU only."""
    for dtype in dtypes:
        for name, text in GPU_PROGRAMS.items():
            source = _with_precision(text.replace("{dtype}", _torch_dtype(dtype)), dtype)
            yield program(f"{name} {dtype}", source, _training(config, dtype))
        tuned = replace(config, settings=tuple(f"torch._inductor.config.{one}" for one in TUNED))
        source = _with_precision(TEMPLATES.replace("{dtype}", _torch_dtype(dtype)), dtype)
        yield program(f"templates {dtype}", source, tuned)
    yield program("flex attention", FLEX, config)
    yield program("triton kernel of the user", TRITON, config)


def _torch_dtype(dtype: str) -> str:
    return "float32" if dtype == TF32 else dtype


def _with_precision(source: str, dtype: str) -> str:
    return PRECISION + source if dtype == TF32 else source


def _training(config: ev.Config, dtype: str) -> ev.Config:
    return replace(config, train=dtype in ("bfloat16", TF32))


def program(name: str, source: str, config: ev.Config, file: Path | None = None) -> Program:
    """Return a program; without a file it is written to one."""

    def job(folder: Path) -> ev.Job:
        path = file or folder / f"{name.replace(' ', '_')}.py"
        if file is None:
            path.write_text(source)
        return ev.Job(
            run=1, file=str(path), source=source, config=config, time_for=0.0, profile=False, examine=False,
            numerics=True,
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
    parser = study_options()
    parser.add_argument("--device", default="cpu", help="device of model and inputs (default: cpu)")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="dtypes of the models, with commas")
    options = parser.parse_args()
    asyncio.run(judge(programs(options.device, options.dtypes.split(",")), options, seconds_each=300))
