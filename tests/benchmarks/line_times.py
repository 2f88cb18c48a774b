"""Time per line against the measured call: `python -m tests.benchmarks.line_times [--device cuda] [--models NAME,…]`.

Each model is checked by `tcexplore check --json`: three samples, one of them in training, and six `transformers`
architectures with random weights, whose lines are the library's. Lines and rest must add up to the timed call, eager
and compiled, within 10%, and no two views of the account of the call may differ. Since the rest is what remains of the
call, a side whose lines ran at another speed than the timing is marked as estimated. The first model has lines of known
cost (`known_costs`): their shares must be within 5 points of those timed by hand, in the same order. The exit status is
1 if something deviates.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from tests.benchmarks import known_costs
from tests.benchmarks.provenance_models import ARCHITECTURES, SAMPLES
from tests.report.timing_consistency import account_contradictions

ROOT = Path(__file__).parents[2]
LIMIT = 0.1
SHARE_LIMIT = 0.05
CLEAR_SHARE = 0.02
"""Lines whose shares by hand are closer than this may be in any order."""
KNOWN_COSTS = "known_costs"
TRAINED = ("language_model",)
NAMES = ("gpt2", "llama", "bert", "qwen2", "vit", "t5")

KEYS = ("timing", "call_account", "line_times", "line_times_rest", "missing", "error")
"""Keys of a report that `--json` writes."""

TRANSFORMER = """\
import torch, transformers

config = transformers.AutoConfig.for_model({name!r}, **{settings!r})
model = transformers.{auto}.from_config(config).eval()
inputs = {inputs}
"""
TOKENS = "torch.randint(0, 128, (4, 64))"
INPUTS = {
    "vit": "{'pixel_values': torch.randn(4, 3, 32, 32)}",
    "t5": f"{{'input_ids': {TOKENS}, 'decoder_input_ids': {TOKENS}, 'use_cache': False}}",
    "bert": f"{{'input_ids': {TOKENS}}}",
}


class Deviation(NamedTuple):
    """One side of a model, in microseconds; `parts` is None if the lines were not measured."""

    call: float
    lines: float
    parts: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.parts is None else self.parts / self.call - 1

    def __str__(self) -> str:
        if self.ratio is None:
            return "not measured"
        return f"{self.call:9.1f} µs, lines {self.lines / self.call:4.0%}, sum {self.ratio:+6.1%}"


def main() -> int:
    """Print the deviation of each model; return 1 if one is over the limit or was not measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="", help="names, separated by commas; default: all")
    parser.add_argument("--time-for", default="2", help="seconds of timing")
    parser.add_argument("--threads", default="", help="1 is the steadiest on a busy machine")
    parser.add_argument("--json", type=Path, help="write the reports' line times to this file")
    parser.add_argument("--limit", type=float, default=float("inf"), help="no model starts after these seconds")
    options = parser.parse_args()
    names = [name for name in options.models.split(",") if name]
    arguments = ["--device", options.device, "--time-for", options.time_for]
    arguments += ["--threads", options.threads] if options.threads else []
    wrong, reports, began = False, {}, perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, file in _files(Path(folder), options.device):
            if names and name not in names:
                continue
            if perf_counter() - began > options.limit:
                print(f"{name:<18} not measured: the limit is over")
                continue
            report = _check(file, [*arguments, "--train"] if name in TRAINED else arguments)
            reports[name] = {key: report.get(key) for key in KEYS}
            wrong |= _show(name, report)
            if name == KNOWN_COSTS:
                wrong |= _compare_costs(report, file, options.device, options.threads)
    if options.json:
        options.json.write_text(json.dumps(reports))
    return int(wrong)


def _files(folder: Path, device: str) -> Iterator[tuple[str, Path]]:
    known = folder / f"{KNOWN_COSTS}.py"
    known.write_text(known_costs.model_source(device))
    yield KNOWN_COSTS, known
    for name in ("mlp", "transformer_block", "language_model"):
        yield name, SAMPLES / f"{name}.py"
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed")
        return
    for name in NAMES:
        auto, settings = ARCHITECTURES[name]
        file = folder / f"{name}_model.py"
        inputs = INPUTS.get(name, f"{{'input_ids': {TOKENS}, 'use_cache': False}}")
        file.write_text(TRANSFORMER.format(name=name, auto=auto, settings=settings, inputs=inputs))
        yield name, file


def _check(file: Path, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout:
        raise SystemExit(f"no report: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _show(name: str, report: dict[str, Any]) -> bool:
    """Print a model; return whether it deviates."""
    if report["timing"] is None:
        print(f"{name:<18} not timed: {report['error'] or report['missing']}", flush=True)
        return True
    sides = {side: _deviation(report, side) for side in ("eager", "compiled")}
    wrong = any(side.ratio is None or abs(side.ratio) > LIMIT for side in sides.values())
    differing = account_contradictions(report)
    wrong |= bool(differing)
    print(f"{name:<18} " + "   ".join(f"{side}: {deviation}" for side, deviation in sides.items()), flush=True)
    if account := report["call_account"]:
        speed = account["measured_us"] / account["total_us"] - 1
        rest = account["rest_us"] / account["total_us"]
        print(f"  account: measured {speed:+.1%} from the timed call, rest {rest:.1%}")
    for text in differing:
        print(f"  two views differ: {text}")
    for missing in report["missing"]:
        if missing["fact"] == "time per line":
            print(f"  missing: {missing['reason']}")
    for rest in report["line_times_rest"]:
        print(f"  {rest['name']:<20} eager {_us(rest['eager_us'])}  compiled {_us(rest['compiled_us'])}")
    for line in report["line_times"][:5]:
        times = f"eager {_us(line['eager_us'])}  compiled {_us(line['compiled_us'])}  {line['share']:4.0%}"
        marks = " shared" * line["shared"] + " estimated" * line["estimated"]
        print(f"  {Path(line['file']).name}:{line['line']} {line['phase']:<8} {times}{marks}")
    return wrong


def _compare_costs(report: dict[str, Any], file: Path, device: str, threads: str) -> bool:
    """Compare the shares of lines of known cost with those timed by hand; return whether one is wrong."""
    wrong = False
    command = [sys.executable, "-m", "tests.benchmarks.known_costs", "--device", device]
    command += ["--threads", threads] if threads else []
    by_hand = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    for side, truth in by_hand.items():
        times = known_costs.reported(report, file, side)
        shares, true_shares = _shares(times), _shares(truth)
        swapped = [
            (one, other)
            for one in truth
            for other in truth
            if true_shares[one] > true_shares[other] + CLEAR_SHARE and shares[one] <= shares[other]
        ]
        print(f"  {side}, by hand {sum(truth.values()):.1f} µs: order {'wrong' if swapped else 'right'}", flush=True)
        for name, share in true_shares.items():
            difference = shares[name] - share
            wrong |= abs(difference) > SHARE_LIMIT
            print(f"    {name:<16} {share:6.1%} by hand, {shares[name]:6.1%} reported, {difference * 100:+5.1f} points")
        wrong |= bool(swapped)
    return wrong


def _shares(times: dict[str, float]) -> dict[str, float]:
    total = sum(times.values()) or 1.0
    return {name: us / total for name, us in times.items()}


def _us(value: float | None) -> str:
    return "        -" if value is None else f"{value:9.1f}"


def _deviation(report: dict[str, Any], side: str) -> Deviation:
    key = f"{side}_us"
    lines, rest = ([part[key] for part in report[name]] for name in ("line_times", "line_times_rest"))
    known = lines + rest and None not in lines + rest
    return Deviation(report["timing"][key], sum(lines) if known else 0.0, sum(lines + rest) if known else None)


if __name__ == "__main__":
    raise SystemExit(main())
