"""Statements whose lines someone found by reading the generated code: tcexplore must name none but those."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tests.capture.by_hand import listings

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

_OTHER_TORCH = f"the statements are those of torch {listings.TORCH}, this is {torch.__version__}"


def test_the_set_is_large_and_its_labels_are_those_of_the_models() -> None:
    read = [statement for name in listings.names() for part in listings.written(name) for statement in part.statements]
    assert len(read) >= 200
    assert len({name.partition(".")[0] for name in listings.names()}) >= 10
    assert all(statement.lines for statement in read)
    assert {label for statement in read for label in statement.lines} <= listings.labels()


@pytest.mark.skipif(not torch.__version__.startswith(listings.TORCH + "."), reason=_OTHER_TORCH)
@pytest.mark.parametrize("name", listings.names())
def test_no_link_is_wrong(name: str) -> None:
    if name.endswith(".cpp") and not listings.has_vectors():
        pytest.skip("the statements are those for vectors of 256 bits, which this machine has not")
    right, wrong, missing = listings.judge(name)
    told = "\n".join((f"{len(wrong)} wrong, {len(missing)} missing, {right} right", *wrong, *missing))
    assert not wrong, told
    assert not missing, told
    assert right, told


def test_a_wrong_line_and_none_at_all_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = [
        listings.Listing("kernel", [listings.Statement(text, frozenset("ab")) for text in ("one", "two", "three")])
    ]
    said = zip(("one", "two", "three"), ("a", "ac", ""), strict=True)
    found = [listings.Listing("kernel", [listings.Statement(text, frozenset(lines)) for text, lines in said])]
    monkeypatch.setattr(listings, "written", lambda _: truth)
    monkeypatch.setattr(listings, "captured", lambda _: found)
    right, wrong, missing = listings.judge("some.cpp")
    assert (right, len(wrong), len(missing)) == (1, 1, 1)
    assert "two" in wrong[0]
    assert "three" in missing[0]
    found[0].statements.pop()
    with pytest.raises(listings.OtherCodeError, match="some"):
        listings.judge("some.cpp")


def _listing(**lines: str) -> listings.Listing:
    return listings.Listing("kernel", [listings.Statement(text, frozenset(labels)) for text, labels in lines.items()])
