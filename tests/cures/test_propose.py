"""What is proposed for a break, as edits of the person's own lines."""

from __future__ import annotations

import ast

import pytest

from tcexplore.cures.propose import CURES, proposals

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
BRANCH = "Data-dependent branching"
BUILTIN = "Failed to trace builtin operator"
SKIPPED = "Attempted to call function marked as skipped"


def cured(text: str, line: int, kind: str, index: int = 0) -> str:
    return proposals("/home/me/model.py", text, line, kind)[index].after


def test_a_branch_becomes_where_and_keeps_its_comments():
    text = "import torch\ndef f(x):\n    if x.sum() > 0:  # why\n        return x * 2\n    return x - 1  # else\n"
    assert cured(text, 3, BRANCH) == (
        "import torch\ndef f(x):\n    # why\n    return torch.where(x.sum() > 0, x * 2, x - 1)  # else\n"
    )


def test_an_assignment_in_both_ways_and_in_one():
    head = "import torch\ndef f(x, y):\n\tif not x.any():\n\t\ty = x\n"
    assert cured(f"{head}\telse:\n\t\ty = -x\n", 3, BRANCH).endswith(
        "\ty = torch.where(torch.logical_not(x.any()), x, -x)\n"
    )
    assert cured(head, 3, BRANCH).endswith("\ty = torch.where(torch.logical_not(x.any()), x, y)\n")


@pytest.mark.parametrize(
    "lines",
    [
        ("if x.sum() > 0:", "    y.mul_(2)"),
        ("if x.sum() > 0:", "    y = 1", "    z = 2"),
        ("if a:", "    y = 1", "elif x.sum() > 0:", "    y = 2", "else:", "    y = 3"),
        ("if x.sum() > 0 and flag:", "    y = x"),
    ],
)
def test_a_branch_that_does_more_than_choose_is_left_alone(lines: tuple[str, ...]):
    text = "import torch\ndef f(x, y, a, flag):\n" + "".join(f"    {line}\n" for line in lines) + "    return y\n"
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "x.sum()" in line)
    assert proposals("/m.py", text, line, BRANCH) == ()


def test_what_may_draw_or_change_is_not_computed_in_vain():
    body = "if x.sum() > 0:\n        return {}\n    return x"
    for way in ("torch.rand_like(x)", "F.dropout(x)", "x.add_(1)", "x.sum().item()"):
        text = f"import torch\nimport torch.nn.functional as F\ndef f(x):\n    {body.format(way)}\n"
        assert all("where" not in change.cure.name for change in proposals("/m.py", text, 4, BRANCH)), way
    text = f"import torch\ndef f(self, x):\n    {body.format('self.layer(x)')}\n"
    assert [change.cure.name for change in proposals("/m.py", text, 3, BRANCH)] == ["torch.cond"]


def test_a_number_stays_a_tensor_only_where_it_was_computed():
    text = "import torch\ndef f(x):\n    return x / x.abs().max().item()\n"
    assert "x.abs().max().detach()" in cured(text, 3, ITEM)
    view = text.replace("x.abs().max().item()", "x[0].item()")
    assert [change.cure.name for change in proposals("/m.py", view, 3, ITEM)] == ["set capture_scalar_outputs"]


def test_a_setting_stands_below_the_imports_in_the_files_own_newlines():
    text = '"""Doc."""\r\nimport torch as t\r\nfrom torch import nn\r\n\r\ndef f(x):\r\n    return x * int(x.max())\r\n'
    after = cured(text, 6, ITEM)
    assert "from torch import nn\r\n\r\nt._dynamo.config.capture_scalar_outputs = True\r\n\r\ndef f" in after
    assert "\n" not in after.replace("\r\n", "")
    assert "import torch._dynamo" in cured("from torch import nn\ndef f(x):\n    return x * int(x.max())\n", 3, ITEM)


def test_a_call_of_several_lines_is_moved_as_a_whole():
    text = 'import torch\ndef f(x):\n    print(  # why\n        "é",\n        x,\n    )\n    return x\n'
    after = cured(text, 4, BUILTIN, 1)
    assert (
        '    if not torch.compiler.is_compiling():\n        print(  # why\n            "é",\n            x,\n' in after
    )
    in_text = 'import torch\ndef f(x):\n    print("""a\n  b""")\n    return x\n'
    assert '\n  b""")' in cured(in_text, 3, BUILTIN, 1)


def test_a_line_that_goes_leaves_no_empty_block():
    text = "import torch\ndef f(x):\n    if x is not None:\n        torch._dynamo.graph_break()\n    return x\n"
    assert "        pass\n" in cured(text, 4, "Call to `torch._dynamo.graph_break()`")


def test_what_is_not_the_persons_own_is_not_touched():
    text = "import torch\ndef f(x):\n    print(x)\n"
    assert proposals("/lib/site-packages/a/b.py", text, 3, BUILTIN) == ()
    assert proposals("/m.py", "def f(:\n", 1, BUILTIN) == ()
    assert proposals("/m.py", text, 3, "no such kind") == ()


def test_a_call_that_does_something_in_the_world_has_no_cure():
    text = "import os\nimport torch\ndef f(x):\n    os.remove('a')\n    return x\n"
    assert proposals("/m.py", text, 4, SKIPPED) == ()


def test_every_proposal_of_every_kind_is_python_and_keeps_the_rest():
    text = (
        "import torch\nimport logging\nimport copy, time, warnings, zlib\nimport numpy as np\n"
        "log = logging.getLogger()\n"
        "@torch.compiler.disable\ndef apart(x):\n    return x\n"
        "def f(self, x):  # é, kept\n"
        "    print('é', x); y = x.max().item() if x.sum() > 0 else apart(copy.deepcopy(x))\n"
        "    x.data = x * 2; t = time.time()\n    z = np.tanh(x.numpy()) + zlib.crc32(b'a')\n"
        "    assert x.sum() > 0, f'{x}'\n    return x.tolist()\n"
    )
    for line in range(1, len(text.splitlines()) + 1):
        for kind in CURES:
            for change in proposals("/m.py", text, line, kind):
                ast.parse(change.after)
                assert "# é, kept" in change.after
                assert change.after != text
