"""Code that is too wide goes on in rows below, with nothing lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tcexplore.documents.code.wrapped_lines import WrappedLines
from tcexplore.documents.labels import KernelLines, labels
from tests import fakes


@pytest.mark.parametrize("width", [70, 74, 90, 120, 400])
def test_rows_fit_the_width_and_have_all_of_the_code(width: int):
    run = fakes.one_graph(7)
    kernel = next(kernel for kernel in run.code.kernels if kernel.generated)
    lines = KernelLines(kernel, labels(run))
    rows = WrappedLines(lines, width)
    shown = [rows.row(index) for index in range(len(rows))]
    assert max(len(row.text) for row in shown) <= max(width, 2 * lines.lead)
    assert re.sub(r"\s", "", "".join(row.text[lines.lead :] for row in shown)) == re.sub(r"\s", "", kernel.source)
    assert sum(not row.continued for row in shown) == len(lines)
    assert (len(shown) > len(lines)) == (width < 200)


def test_a_continued_row_has_the_links_and_the_copy_of_its_line():
    run = fakes.one_graph(7)
    kernel = next(kernel for kernel in run.code.kernels if kernel.generated)
    rows = WrappedLines(KernelLines(kernel, labels(run)), 74)
    shown = [rows.row(index) for index in range(len(rows))]
    pairs = [(above, below) for above, below in pairwise(shown) if below.continued]
    assert pairs
    assert all((above.links, above.copy) == (below.links, below.copy) for above, below in pairs)


def test_a_narrow_view_cuts_lines_rather_than_dividing_them():
    run = fakes.one_graph(7)
    kernel = next(kernel for kernel in run.code.kernels if kernel.generated)
    lines = KernelLines(kernel, labels(run), narrow=True)
    assert len(WrappedLines(lines, 47)) == len(lines)
