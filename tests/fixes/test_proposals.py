"""Fixes proposed for a break, as edits of the user's own lines."""

from __future__ import annotations

import ast

import pytest

from tcexplore.fixes.proposals import FIXES, advice, proposals

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
BRANCH = "Data-dependent branching"
BUILTIN = "Failed to trace builtin operator"
SKIPPED = "Attempted to call function marked as skipped"


def fixed(text: str, line: int, kind: str, index: int = 0) -> str:
    return proposals("/home/me/model.py", text, line, kind)[index].after


def test_a_branch_becomes_where_and_keeps_its_comments():
    text = "import torch\ndef f(x):\n    if x.sum() > 0:  # why\n        return x * 2\n    return x - 1  # else\n"
    assert fixed(text, 3, BRANCH) == (
        "import torch\ndef f(x):\n    # why\n    return torch.where(x.sum() > 0, x * 2, x - 1)  # else\n"
    )


def test_an_assignment_in_one_or_both_branches_becomes_where():
    head = "import torch\ndef f(x, y):\n\tif not x.any():\n\t\ty = x\n"
    assert fixed(f"{head}\telse:\n\t\ty = -x\n", 3, BRANCH).endswith(
        "\ty = torch.where(torch.logical_not(x.any()), x, -x)\n"
    )
    assert fixed(head, 3, BRANCH).endswith("\ty = torch.where(torch.logical_not(x.any()), x, y)\n")


def test_a_number_that_a_later_branch_tests_stays_a_tensor_and_selects():
    head = "import torch\ndef f(x):\n    scale = x.norm().item()\n"
    text = f"{head}    if scale > 100.0:\n        x = x / scale\n    return x * scale\n"
    changed = proposals("/m.py", text, 3, ITEM)[0]
    assert changed.after.splitlines()[2:5] == [
        "    scale = x.norm().detach()", "    x = torch.where(scale > 100.0, x / scale, x)", "    return x * scale",
    ]  # fmt: skip
    assert changed.fix.name == "keep it a tensor, torch.where"
    assert [ast.unparse(node.test) for node in changed.fix.tests] == ["scale > 100.0"]
    branches = "    if scale > 9:\n        x = -x\n    elif scale > 5:\n        x = x + 1\n"
    twice = f"{head}{branches}    return x if scale < 1 else -x\n"
    after = proposals("/m.py", twice, 3, ITEM)[0].after
    assert after.splitlines()[3:] == [
        "    x = torch.where(scale > 9, -x, torch.where(scale > 5, x + 1, x))",
        "    return torch.where(scale < 1, x, -x)",
    ]


@pytest.mark.parametrize(
    "rest",
    [
        "    return x * scale",
        "    if scale > 1:\n        x.add_(1)\n    return x",
        "    while scale > 1:\n        scale -= 1",
    ],
)
def test_a_number_without_a_branch_that_selects_is_only_kept(rest: str):
    text = f"import torch\ndef f(x):\n    scale = x.norm().item()\n{rest}\n"
    assert proposals("/m.py", text, 3, ITEM)[0].fix.name == "keep it a tensor"


@pytest.mark.parametrize(
    "lines",
    [
        ("if x.sum() > 0:", "    y.mul_(2)"),
        ("if x.sum() > 0:", "    y = x * 2", "    z = y + 1"),
        ("if x.sum() > 0:", "    y = x * 2", "    y = x + 1"),
        ("if a:", "    y = 1", "elif x.sum() > 0:", "    y = 2", "else:", "    y = 3"),
        ("if x.sum() > 0 and a(flag):", "    y = x"),
        ("while x.sum() > 0:", "    y.append(1)"),
        ("while x.sum() > 0:", "    y = x", "else:", "    y = 1"),
    ],
)
def test_a_branch_that_does_more_than_choose_a_value_has_no_fix(lines: tuple[str, ...]):
    text = "import torch\ndef f(x, y, a, flag):\n" + "".join(f"    {line}\n" for line in lines) + "    return y\n"
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "x.sum()" in line)
    assert proposals("/m.py", text, line, BRANCH) == ()


def test_elif_and_several_names_become_nested_where():
    chain = "import torch\ndef f(x):\n    if x.sum() > 9:\n        return x\n    elif x.any():\n        return -x\n"
    nested = "torch.where(x.sum() > 9, x, torch.where(x.any(), -x, x + 1))"
    assert fixed(f"{chain}    return x + 1\n", 3, BRANCH).endswith(f"    return {nested}\n")
    assert fixed(f"{chain}    else:\n        return x + 1\n", 3, BRANCH).endswith(f"    return {nested}\n")
    assert proposals("/m.py", chain, 3, BRANCH) == ()
    both = "import torch\ndef f(x, y, z):\n    if x.any() and y.all():\n        y = z\n        z = y2\n"
    test = "torch.logical_and(x.any(), y.all())"
    assert fixed(both, 3, BRANCH).endswith(f"    y, z = torch.where({test}, z, y), torch.where({test}, y2, z)\n")


def test_a_branch_that_divides_also_becomes_a_where_whose_divisors_are_safe():
    text = "import torch\ndef f(h, s):\n    if s.item() > 4.0:\n        h = h * (4.0 / s) / 2.0\n    return h\n"
    assert fixed(text, 3, BRANCH).endswith("h = torch.where(s > 4.0, h * (4.0 / s) / 2.0, h)\n    return h\n")
    safe = "h * (4.0 / torch.where(s > 4.0, s, 1.0)) / 2.0"
    assert fixed(text, 3, BRANCH, 1).endswith(f"h = torch.where(s > 4.0, {safe}, h)\n    return h\n")
    returned = "import torch\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return 1 / (x / (x + 1))\n"
    test = "torch.where(x.sum() > 0, 1.0, "
    other = f"1 / {test}x / {test}x + 1))"
    assert fixed(returned, 3, BRANCH, 1).endswith(f"return torch.where(x.sum() > 0, x, {other})\n")


def test_a_loop_becomes_while_loop_with_its_lines_as_the_body():
    text = "import torch\ndef f(x, n):\n\twhile x.max() < 9:\n\t\tx = x * 2  # why\n\t\tn = n + 1\n\treturn x\n"
    assert fixed(text, 3, BRANCH) == (
        "import torch\ndef f(x, n):\n\tdef loop_body(x, n):\n\t\tx = x * 2  # why\n\t\tn = n + 1\n\t\treturn x, n\n\n"
        "\tx, n = torch.while_loop(lambda x, n: x.max() < 9, loop_body, (x, n))\n\treturn x\n"
    )
    one = fixed("import torch\ndef f(x):\n    while x.max() < 9:\n        x = x * 2", 3, BRANCH)
    assert one.endswith("return (x,)\n\n    (x,) = torch.while_loop(lambda x: x.max() < 9, loop_body, (x,))")


def test_reading_a_file_moves_above_the_function():
    head = "import json\nimport torch\nNAME = 'a.json'\n\n"
    text = f"{head}def f(x):\n    with open(NAME) as file:\n        n = json.load(file)['n']\n    return x * n\n"
    assert fixed(text, 6, BUILTIN) == (
        f"{head}with open(NAME) as file:\n    n = json.load(file)['n']\n\n\ndef f(x):\n    return x * n\n"
    )
    inline = f"{head}def f(x):\n    return x * json.load(open(NAME))['n']\n"
    assert fixed(inline, 6, BUILTIN) == (
        f"{head}_JSON_LOAD = json.load(open(NAME))['n']\n\n\ndef f(x):\n    return x * _JSON_LOAD\n"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("y = open(x).read()",),
        ("y = open('a')",),
        ("y = open('a', 'w').write('b')",),
        ("y = open('a', mode).read()",),
        ("NAME = x.name", "y = open(NAME).read()"),
        ("y = pathlib.Path('a').write_text('b')",),
        ("with open('a') as file:", "    x.add_(1)"),
        ("y = 1", "with open('a') as file:", "    y = file.read()"),
        ("with open('a') as file:", "    x = file.read()"),
    ],
)
def test_file_writes_and_reads_that_depend_on_the_call_are_not_moved(lines: tuple[str, ...]):
    text = "import pathlib\nimport torch\nNAME = 'a'\ndef f(x, mode):\n" + "".join(f"    {line}\n" for line in lines)
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "open(" in line or "Path(" in line)
    assert proposals("/m.py", text, line, BUILTIN) == ()
    assert proposals("/m.py", text, line, SKIPPED) == ()


def test_an_observing_context_is_skipped_while_compiling():
    kind = "Unsupported context manager"
    text = "from __future__ import annotations\nimport torch\n\ndef f(x):\n    with {}:\n        return x.sin()\n"
    after = fixed(text.format("torch.profiler.profile()"), 5, kind)
    assert "annotations\nimport contextlib\nimport torch\n" in after
    assert "with contextlib.nullcontext() if torch.compiler.is_compiling() else torch.profiler.profile():" in after
    for other in ("torch.profiler.profile() as p", "lock", "torch.autocast('cpu')"):
        assert proposals("/m.py", text.format(other), 5, kind) == (), other


def test_random_becomes_uniform():
    text = "import random as r\nimport torch\ndef f(x):\n    return x * r.random() + r.random()\n"
    assert fixed(text, 4, SKIPPED).endswith("return x * r.uniform(0.0, 1.0) + r.uniform(0.0, 1.0)\n")


def test_random_or_mutating_branches_are_not_computed_unconditionally():
    body = "if x.sum() > 0:\n        return {}\n    return x"
    for way in ("torch.rand_like(x)", "F.dropout(x)", "x.add_(1)", "x.sum().item()"):
        text = f"import torch\nimport torch.nn.functional as F\ndef f(x):\n    {body.format(way)}\n"
        assert all("where" not in change.fix.name for change in proposals("/m.py", text, 4, BRANCH)), way
    text = f"import torch\ndef f(self, x):\n    {body.format('self.layer(x)')}\n"
    assert [change.fix.name for change in proposals("/m.py", text, 3, BRANCH)] == ["torch.cond"]


def test_a_number_stays_a_tensor_only_if_it_is_computed():
    text = "import torch\ndef f(x):\n    return x / x.abs().max().item()\n"
    assert "x.abs().max().detach()" in fixed(text, 3, ITEM)
    view = text.replace("x.abs().max().item()", "x[0].item()")
    assert [change.fix.name for change in proposals("/m.py", view, 3, ITEM)] == ["set capture_scalar_outputs"]


def test_a_flag_is_set_below_the_imports_with_the_files_own_newlines():
    text = '"""Doc."""\r\nimport torch as t\r\nfrom torch import nn\r\n\r\ndef f(x):\r\n    return x * int(x.max())\r\n'
    after = fixed(text, 6, ITEM)
    assert "from torch import nn\r\n\r\nt._dynamo.config.capture_scalar_outputs = True\r\n\r\ndef f" in after
    assert "\n" not in after.replace("\r\n", "")
    assert "import torch._dynamo" in fixed("from torch import nn\ndef f(x):\n    return x * int(x.max())\n", 3, ITEM)


def test_a_call_of_several_lines_is_indented_as_a_whole():
    text = 'import torch\ndef f(x):\n    print(  # why\n        "é",\n        x,\n    )\n    return x\n'
    after = fixed(text, 4, BUILTIN, 1)
    assert (
        '    if not torch.compiler.is_compiling():\n        print(  # why\n            "é",\n            x,\n' in after
    )
    in_text = 'import torch\ndef f(x):\n    print("""a\n  b""")\n    return x\n'
    assert '\n  b""")' in fixed(in_text, 3, BUILTIN, 1)


def test_a_removed_line_leaves_no_empty_block():
    text = "import torch\ndef f(x):\n    if x is not None:\n        torch._dynamo.graph_break()\n    return x\n"
    assert "        pass\n" in fixed(text, 4, "Call to `torch._dynamo.graph_break()`")


def test_libraries_and_invalid_files_have_no_fix():
    text = "import torch\ndef f(x):\n    print(x)\n"
    assert proposals("/lib/site-packages/a/b.py", text, 3, BUILTIN) == ()
    assert proposals("/m.py", "def f(:\n", 1, BUILTIN) == ()
    assert proposals("/m.py", text, 3, "no such kind") == ()


def test_a_call_with_outside_effects_has_no_fix():
    text = "import os\nimport torch\ndef f(x):\n    os.remove('a')\n    return x\n"
    assert proposals("/m.py", text, 4, SKIPPED) == ()


def test_every_fix_gives_valid_python_and_keeps_the_rest():
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
        for kind in FIXES:
            for change in proposals("/m.py", text, line, kind):
                ast.parse(change.after)
                assert "# é, kept" in change.after
                assert change.after != text


@pytest.mark.parametrize(
    ("line", "kind", "sentence"),
    [
        ("while x.sum() < 1:\n        log(x)", BRANCH, "torch.while_loop takes"),
        ("if x.sum() < 1:\n        x.add_(1)", BRANCH, "Write both branches"),
        ("y = r.choice((1, 2))", SKIPPED, "Draw the number before"),
        ("r.seed(0)", SKIPPED, "Set the seed before"),
        ("with lock:\n        y = open('a').read()", "Unsupported context manager", "put the `with` around"),
        ("subprocess.run(['a'])", SKIPPED, "before or after"),
        ("y = foreign(x)", SKIPPED, "torch.library.custom_op"),
        ("y = x", "no such kind", "No known change of these lines"),
    ],
)
def test_a_break_without_a_fix_has_advice(line: str, kind: str, sentence: str):
    text = f"import random as r\nimport subprocess\nimport torch\ndef f(x):\n    {line}\n"
    assert proposals("/m.py", text, 5, kind) == ()
    assert sentence in advice("/m.py", text, 5, kind)
    assert "installed library" in advice("/lib/site-packages/m.py", text, 5, kind)
