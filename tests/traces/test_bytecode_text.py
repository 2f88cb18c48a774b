"""Bytecode in the text of `dis`, as this Python and others write it."""

from __future__ import annotations

import dis
from typing import Any

from tcexplore.torch_text.bytecode_text import read_instructions, resume_variables

PYTHON_3_11 = """\
             0 COPY_FREE_VARS           1
 14           2 RESUME                   0
              4 LOAD_GLOBAL              7 (NULL + __compiled_fn_3_ab)
             16 LOAD_FAST                2 (h)
        >>   18 POP_JUMP_FORWARD_IF_FALSE     3 (to 26)
 15          20 LOAD_CONST               1 ('a (b)')
             22 LOAD_GLOBAL              9 (NULL + __resume_at_30_2)
             26 RETURN_VALUE
"""

PYTHON_3_13 = """\
  --           COPY_FREE_VARS           1

  14           RESUME                   0
               LOAD_GLOBAL              7 (__compiled_fn_3_ab + NULL)
               LOAD_ATTR                3 (mean + NULL|self)
               POP_JUMP_IF_FALSE        3 (to L1)
  15           LOAD_CONST               1 ('a (b)')
       L1:     RETURN_VALUE
ExceptionTable:
  4 to 30 -> 60 [1] lasti
"""


def test_offsets_lines_and_targets_of_python_3_11():
    read = read_instructions(PYTHON_3_11)
    assert [each.op for each in read][:4] == ["COPY_FREE_VARS", "RESUME", "LOAD_GLOBAL", "LOAD_FAST"]
    assert [each.offset for each in read] == [0, 2, 4, 16, 18, 20, 22, 26]
    assert [each.line for each in read] == [None, None, None, None, None, 15, None, None]
    assert [each.value for each in read if each.op.startswith("LOAD")] == [
        "NULL + __compiled_fn_3_ab", "h", "'a (b)'", "NULL + __resume_at_30_2",
    ]  # fmt: skip
    assert next(each.target for each in read if "JUMP" in each.op) == 26
    assert resume_variables(read) == ("__resume_at_30_2",)


def test_labels_of_python_3_13():
    read = read_instructions(PYTHON_3_13)
    assert [(each.op, each.line) for each in read] == [
        ("COPY_FREE_VARS", None), ("RESUME", None), ("LOAD_GLOBAL", None), ("LOAD_ATTR", None),
        ("POP_JUMP_IF_FALSE", None), ("LOAD_CONST", 15), ("RETURN_VALUE", None),
    ]  # fmt: skip
    assert [each.value for each in read if each.op in ("LOAD_GLOBAL", "LOAD_ATTR")] == [
        "__compiled_fn_3_ab + NULL", "mean + NULL|self",
    ]  # fmt: skip
    jump = next(each for each in read if each.target is not None)
    assert jump.target == read[-1].offset


def sample(x: Any) -> Any:
    if x > 1:
        x.go("a", key=[x, None])
    return [item for item in x]  # noqa: C416


def test_the_text_of_this_python_has_all_instructions():
    read = read_instructions(dis.Bytecode(sample).dis())
    expected = [each for each in dis.get_instructions(sample) if each.opname != "CACHE"]
    assert [each.op for each in read] == [each.opname for each in expected]
    assert [each.arg for each in read if each.arg is not None] == [
        each.arg for each, mine in zip(expected, read, strict=True) if mine.arg is not None
    ]
    values = {each.value or str(each.arg) for each in read}
    assert {"x", "1"} <= values
    assert any("go" in value.split() for value in values)
