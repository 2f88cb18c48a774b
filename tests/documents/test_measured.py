"""Facts from a GPU in panes and reports: measured times, autotuning, CUDA graphs, the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.code.autotuning_view import autotuning_document
from tcexplore.documents.code.device_view import device_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.document import Builder, Row
from tcexplore.documents.timing.device_rows import format_rate, shorten_device_function
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import achieved, kernel_facts
from tcexplore.session.links import kernel_link
from tests import fakes
from tests.documents import golden
from tests.report.check_text import check_text
from tests.snapshots import gpu, measured

VIEWS: dict[str, Builder] = {"device": device_document, "timing": timing_document, "tuning": autotuning_document}


def rows(build: Builder, toggled: frozenset[str] = frozenset(), width: int = 78) -> list[Row]:
    document = build(measured.run(), toggled, width)
    return [document.row(index) for index in range(len(document))]


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str):
    toggled = frozenset({"one call"})
    golden.check(f"measured-{name}", golden.text(VIEWS[name](measured.run(), toggled, 78)))


def test_kernel_shows_its_measured_time():
    text = " ".join(" ".join(row.text for row in rows(kernels_document)).split())
    assert "measured 3.50 µs in 2 launches · 150 GB/s, 50% of peak" in text


def test_measured_rates_cover_all_launches_and_compare_with_peaks():
    run = measured.run()
    kernel = next(k for k in run.code.kernels if k.name == measured.PRODUCT)
    rates = achieved(run, kernel, kernel_facts(run.code, kernel))
    assert rates is not None
    assert rates.memory.rate == pytest.approx(
        (kernel.bytes_read or 0) / 17.7e-6 + (kernel.bytes_written or 0) / 17.7e-6
    )
    assert rates.compute.share == pytest.approx((1 << 28) / 17.7e-6 / 30.3e12)
    assert rates.bound_share == rates.compute.share
    absent = gpu.run().code
    assert achieved(gpu.run(), absent.kernels[1], kernel_facts(absent, absent.kernels[1])) is None, (
        "code for a device that is absent"
    )


def test_bytes_of_a_dynamic_graph_name_the_sizes_that_they_are_counted_for():
    run = measured.run()
    kernel = next(k for k in run.code.kernels if k.name == measured.PRODUCT)
    number = ev.Specialization(value="9", reason="")
    symbols = ev.Symbol(name="s23", hint="4"), ev.Symbol(name="s77", hint="9", specialized=(number,))
    dynamic = run.apply(ev.GraphSymbols(run=run.run, graph=kernel.graph, symbols=symbols))
    document = kernels_document(dynamic, frozenset(), 200)
    texts = [document.row(index).text for index in range(len(document))]
    assert any("TB/s" in text or "GB/s" in text for text in texts), "one call, which has these sizes"
    assert any(text.endswith("bytes are counted at s23=4") for text in texts)
    assert run.timing is not None
    several = dynamic.apply(replace(run.timing, run=run.run, calls=2))
    rates = achieved(several, kernel, kernel_facts(several.code, kernel))
    assert rates is not None
    assert (rates.memory.rate, rates.compute.rate) == (None, None)
    assert "the call may have others" in rates.memory.reason


def test_slower_choices_are_folded():
    closed = [row.text for row in rows(autotuning_document)]
    assert not any("XBLOCK=8192" in text for text in closed)
    name = next(row.fold for row in rows(autotuning_document) if row.fold)
    assert name is not None
    assert any("XBLOCK=8192" in row.text for row in rows(autotuning_document, frozenset({name})))
    assert any(row.links for row in rows(autotuning_document)), "a choice leads to its kernel"


def test_cpu_run_has_no_device_facts():
    run = fakes.complete()
    text = "\n".join(
        timing_document(run, frozenset(), 78).row(at).text for at in range(len(timing_document(run, frozenset(), 78)))
    )
    assert "CUDA graphs" not in text
    assert "device busy" not in text
    assert "none in this run" in autotuning_document(run, frozenset(), 78).row(0).text or not run.autotuned
    fields = report(run, None)
    assert (fields["device"], fields["autotuned"], fields["cuda_graphs"]["recorded"]) == (None, [], [])
    assert run.timing is not None
    assert run.timing.launch_bound is None


def test_reports_contain_device_facts():
    fields = report(measured.run(), None)
    kernel = next(k for k in fields["kernels"] if k["name"] == measured.POINTWISE)
    assert (kernel["measured"]["us"], kernel["measured"]["launches"]) == (3.5, 2)
    assert fields["device"]["throttle_reasons"] == ["the power limit"]
    assert fields["cuda_graphs"]["launches_saved_per_call"] == 1
    assert [choice["chosen"] for choice in fields["autotuned"][0]["choices"]] == [True, False, False]
    assert [fields["timing"][key] for key in ("launch_bound", "compiled_kernels_us", "compiled_device_span_us")] == [
        True,
        22.0,
        31.0,
    ]
    assert fields["call_account"]["launch_gaps_us"] == 31.0
    text = " ".join(check_text(measured.run(), 100).split())
    for words in ("1 CUDA graph recorded", "mutated inputs", "NVIDIA H200", "the best template 1.47×", "LAUNCH-BOUND"):
        assert words in text, words


def test_names_and_rates():
    assert (
        shorten_device_function("void at::native::(anonymous namespace)::apply<A<2>, B<float> >(A<2>)")
        == "at::native::apply"
    )
    assert shorten_device_function("Memcpy DtoH (Device -> Pinned)") == "Memcpy DtoH (Device -> Pinned)"
    assert [format_rate(x, "B/s") for x in (950.0, 1.62e12, 84e9)] == ["950 B/s", "1.62 TB/s", "84.0 GB/s"]


def test_the_slowest_kernel_is_named_at_the_top_of_the_code_pane():
    def kernel_rows(run: Snapshot) -> list[Row]:
        document = kernels_document(run, frozenset(), 100)
        return [document.row(index) for index in range(len(document))]

    run = fakes.complete()
    run = replace(run, call_account=None)
    first, second, *_ = run.code.kernels
    assert not any("slowest" in row.text for row in kernel_rows(run))
    parts = tuple(
        ev.CallPart(kind="kernel", name=kernel.name, graph=kernel.graph, phase=kernel.phase, us=us, low_us=us,
                    high_us=us)
        for kernel, us in ((first, 10.0), (second, 25.0))
    )  # fmt: skip
    run = run.apply(ev.CallProfiled(run=run.run, total_us=100.0, repeats=4, parts=parts))
    (slowest,) = (row for row in kernel_rows(run) if "slowest" in row.text)
    assert "78.6 µs  25% of a call" in slowest.text, "of the 315 µs that are timed"
    (target,) = (row for row in kernel_rows(run) if row.fold == slowest.target)
    assert kernel_link(second) in target.links
    unsteady = tuple(replace(part, low_us=0.4 * part.us) for part in parts)
    unsteady_run = run.apply(ev.CallProfiled(run=run.run, total_us=100.0, repeats=4, parts=unsteady))
    (slowest,) = (row for row in kernel_rows(unsteady_run) if "slowest" in row.text)
    assert slowest.text.endswith("  10.0 µs to 78.6 µs in the profiled calls")
    parts = tuple(replace(part, us=us) for part, us in zip(parts, (40.0, 25.0), strict=True))
    run = run.apply(ev.CallProfiled(run=run.run, total_us=100.0, repeats=4, parts=parts))
    library, generated = (row for row in kernel_rows(run) if row.text.startswith(" slowest"))
    assert library.text.startswith(" slowest  E1  ")
    assert generated.text.startswith(" slowest generated  ")
    (target,) = (row for row in kernel_rows(run) if row.fold == generated.target)
    assert kernel_link(second) in target.links, "the one that Inductor generated"
