"""Text of the user and of torch is shown unchanged: brackets are not markup, nothing is lost."""

from __future__ import annotations

from tests.documents.golden import text
from tests.documents.panes import BUILDERS
from tests.documents.untrusted import NASTY, nasty


def test_every_pane_keeps_brackets():
    run = nasty()
    for pane, build in BUILDERS.items():
        assert NASTY in text(build(run, frozenset(), 200)), pane


def test_wrapping_loses_nothing():
    run = nasty()
    for pane in ("breaks", "timing", "output"):
        closed = BUILDERS[pane](run, frozenset(), 38)
        rows = (closed.row(index) for index in range(len(closed)))
        folds = frozenset(row.fold for row in rows if row.fold and "▸" in row.text)
        words = text(BUILDERS[pane](run, folds, 38)).split()
        assert all(word in words for word in NASTY.split()), pane
