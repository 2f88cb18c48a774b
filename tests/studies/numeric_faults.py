"""Model files that each make one op of the compiled program wrong: the op and the line that a judgement must find.

The line has the comment `# here`. Programs are correct without the fault.
"""

from __future__ import annotations

from typing import NamedTuple

PRELUDE = """
import functools

import torch
from torch._inductor import config, lowering
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides
from torch._inductor.decomposition import decompositions, fast_random_decomps

aten = torch.ops.aten


def in_cpp(text, factor):
    return f"({text} * decltype({text})({factor}f))"


def in_triton(text, factor):
    return f"({text} * {factor})"


def generate(name, change):
    # Change the expression of an op, in C++ and in Triton.
    owners = [(CppOverrides, in_cpp), (CppVecOverrides, in_cpp)]
    if torch.cuda.is_available():
        from torch._inductor.codegen.triton import TritonOverrides

        owners.append((TritonOverrides, in_triton))
    for owner, product in owners:
        original = getattr(owner, name)
        changed = functools.wraps(original)(functools.partial(change, original, product))
        setattr(owner, name, staticmethod(changed))


def scale(factor):
    return lambda original, product, *args: product(original(*args), factor)


def scale_input(factor):
    return lambda original, product, x, *rest: original(product(x, factor), *rest)


def lower(op, change):
    # Change the lowering of an op.
    original = lowering.lowerings[op]
    lowering.lowerings[op] = lambda *args, **kwargs: change(original, *args, **kwargs)


def times(factor):
    def change(original, *args, **kwargs):
        mul = lowering.lowerings[aten.mul.Tensor]
        result = original(*args, **kwargs)
        return mul(result, factor)
    return change


def decompose(op, function):
    for table in (decompositions, fast_random_decomps()):
        table[op] = function


torch.manual_seed(0)
"""


class NumericFault(NamedTuple):
    """A fault, and what must be found."""

    name: str
    op: str
    """The wrong op, without its namespace."""
    fault: str
    program: str
    statement: str = ""
    """Text that the statement of the generated C++ has; empty if there is none."""
    train: bool = False
    stage: str = "kernel"
    """What is wrong: the code of a kernel, or the nodes that it is generated from."""

    @property
    def source(self) -> str:
        return PRELUDE + self.fault + self.program

    def statement_on(self, device: str) -> str:
        """Return the text that the statement has in the code for a device."""
        return self.statement if device == "cpu" or not self.statement else TRITON.get(self.op, self.statement)

    @property
    def line(self) -> int:
        return 1 + next(n for n, text in enumerate(self.source.split("\n")) if "# here" in text)


TRITON = {
    "sigmoid": "tl.sigmoid(", "exp": "libdevice.exp(", "tanh": "libdevice.tanh(", "log": "tl_math.log(",
    "sin": "tl_math.sin(", "cos": "tl_math.cos(", "sqrt": "tl.sqrt_rn(", "erf": "libdevice.erf(",
    "maximum": "triton_helpers.maximum(", "rsqrt": "libdevice.rsqrt(", "expm1": "libdevice.expm1(",
    "atan": "libdevice.atan(", "index_put_": "tl.store(",
}  # fmt: skip
"""Text that the statement of an op has in Triton."""


def pointwise(expression: str) -> str:
    return f"""
def model(x, w):
    a = x * 2 + 1
    b = {expression}  # here
    c = b * w - 0.5
    return c.abs(), (c * c).sum(-1)


inputs = (torch.rand(64, 256) + 0.1, torch.randn(256))
"""


NORMALIZED = """
def model(x, w):
    a = x + 0.5
    mean = a.mean(-1, keepdim=True)  # mean
    d = a - mean
    var = (d * d).sum(-1, keepdim=True) / 256  # sum
    r = torch.rsqrt(var + 1e-5)  # rsqrt
    return d * r * w


inputs = (torch.randn(64, 256), torch.randn(256))
"""


def normalized(op: str) -> str:
    return NORMALIZED.replace(f"# {op}", "# here")


def module(layers: str, shape: str = "32, 64", extra: str = "") -> str:
    return f"""
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(64, 64){extra}

    def forward(self, x):
        h = self.fc(x)
        h = {layers}  # here
        return h * 1.5


model = Model()
inputs = (torch.randn({shape}),)
"""


CODEGEN = (
    NumericFault(
        "sigmoid scales its input by 0.999",
        "sigmoid",
        'generate("sigmoid", scale_input(0.999))\n',
        pointwise("torch.sigmoid(a)"),
        "exp()",
    ),
    NumericFault(
        "exp is 0.1 % too large", "exp", 'generate("exp", scale(1.001))\n', pointwise("torch.exp(-a)"), "exp()"
    ),
    NumericFault(
        "tanh is 1 % too small", "tanh", 'generate("tanh", scale(0.99))\n', pointwise("torch.tanh(a)"), "tanh()"
    ),
    NumericFault(
        "log is 0.5 % too large", "log", 'generate("log", scale(1.005))\n', pointwise("torch.log(a)"), "log()"
    ),
    NumericFault(
        "sin scales its input by 1.001",
        "sin",
        'generate("sin", scale_input(1.001))\n',
        pointwise("torch.sin(a)"),
        "sin()",
    ),
    NumericFault("cos is 10 % too large", "cos", 'generate("cos", scale(1.1))\n', pointwise("torch.cos(a)"), "cos()"),
    NumericFault(
        "sqrt is 0.2 % too large", "sqrt", 'generate("sqrt", scale(1.002))\n', pointwise("torch.sqrt(a)"), "sqrt()"
    ),
    NumericFault("erf is 1 % too large", "erf", 'generate("erf", scale(1.01))\n', pointwise("torch.erf(a)"), "erf()"),
    NumericFault(
        "a maximum is 1 % too large",
        "maximum",
        'generate("maximum", scale(1.01))\n',
        pointwise("torch.maximum(a, w * 3)"),
        "maximum",
    ),
    NumericFault(
        "a division is 0.1 % too large", "div", 'generate("truediv", scale(1.001))\n', pointwise("a / (w * w + 1)"), "/"
    ),
    NumericFault(
        "rsqrt is 0.5 % too large", "rsqrt", 'generate("rsqrt", scale(1.005))\n', normalized("rsqrt"), "sqrt("
    ),
    NumericFault(
        "relu is 1 % too large", "relu", 'generate("relu", scale(1.01))\n', pointwise("torch.relu(a - 1.5)"), ""
    ),
    NumericFault(
        "expm1 is 1 % too small", "expm1", 'generate("expm1", scale(0.99))\n', pointwise("torch.expm1(a)"), "exp()"
    ),
    NumericFault(
        "atan is 2 % too large", "atan", 'generate("atan", scale(1.02))\n', pointwise("torch.atan(a)"), "atan"
    ),
)
"""Faults in the C++ code of an op."""

BITS = """
def rounded(original, *args, **kwargs):
    # The result as if it had been stored in bfloat16.
    from torch._inductor import ir
    from torch._inductor.virtualized import ops

    result = original(*args, **kwargs)
    loader = result.make_loader()

    def inner(index):
        bits = ops.bitwise_and(
            ops.to_dtype_bitcast(loader(index), torch.int32, torch.float32), ops.constant(-65536, torch.int32)
        )
        return ops.to_dtype_bitcast(bits, torch.float32, torch.int32)

    return ir.Pointwise.create(
        device=result.get_device(), dtype=torch.float32, inner_fn=inner, ranges=list(result.get_size())
    )


"""

SHIFTED = """
def shifted(original, x, *args, **kwargs):
    # Read the element after the right one.
    from torch._inductor import ir

    result = original(x, *args, **kwargs)
    size, loader = result.get_size(), result.make_loader()

    def inner(index):
        *outer, last = index
        return loader([*outer, (last + 1) % size[-1]])

    return ir.Pointwise.create(
        device=result.get_device(), dtype=result.get_dtype(), inner_fn=inner, ranges=list(size)
    )


"""

LOWERINGS = (
    NumericFault("a sum is 0.1 % too large", "sum", "lower(aten.sum.dim_IntList, times(1.001))\n", normalized("sum")),
    NumericFault("a mean is 1 % too large", "mean", "lower(aten.mean.dim, times(1.01))\n", normalized("mean")),
    NumericFault(
        "amax is 1 % too small",
        "amax",
        "lower(aten.amax.default, times(0.99))\n",
        """
def model(x):
    a = torch.sigmoid(x)
    m = a.amax(-1, keepdim=True)  # here
    return a / m


inputs = (torch.randn(64, 256),)
""",
    ),
    NumericFault(
        "clamp_min adds 0.01",
        "clamp_min",
        "lower(aten.clamp_min.default, lambda original, x, low: original(x, low + 0.01))\n",
        pointwise("(a - 1.5).clamp_min(0.25)"),
    ),
    NumericFault(
        "a comparison includes equality",
        "gt",
        "lowering.lowerings[aten.gt.Scalar] = lowering.lowerings[aten.ge.Scalar]\n",
        """
def model(x):
    a = x.round()
    m = a > 1  # here
    return torch.where(m, a * 0.5, a - 3)


inputs = (torch.randn(64, 256) * 2,)
""",
    ),
    NumericFault(
        "where swaps its branches at negative values",
        "where",
        "lower(aten.where.self, lambda original, c, a, b: original(c, b, a))\n",
        pointwise("torch.where(a > 1.7, a, w)"),
    ),
    NumericFault(
        "flip reads the element after the right one",
        "rev",
        SHIFTED + "lower(torch.ops.prims.rev.default, shifted)\n",
        pointwise("a.flip(-1)"),
    ),
    NumericFault(
        "a gather reads the element after the right one",
        "gather",
        SHIFTED + "lower(aten.gather.default, shifted)\n",
        """
def model(x, i):
    a = x * 2
    b = a.gather(1, i)  # here
    return b + 1


inputs = (torch.randn(64, 256), torch.randint(0, 256, (64, 128)))
""",
    ),
    NumericFault(
        "an embedding reads the element after the right one",
        "embedding",
        SHIFTED + "lower(aten.embedding.default, shifted)\n",
        """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(100, 64)

    def forward(self, i):
        h = self.table(i)  # here
        return torch.tanh(h) * 2


model = Model()
inputs = (torch.randint(0, 100, (8, 32)),)
""",
    ),
    NumericFault(
        "a concatenation reads the element after the right one",
        "cat",
        SHIFTED + "lower(aten.cat.default, shifted)\n",
        """
def model(x, y):
    a = x * 2
    b = torch.cat([a, y], 1)  # here
    return torch.sin(b) + 1


inputs = (torch.randn(64, 32), torch.randn(64, 96))
""",
    ),
    NumericFault(
        "a product is rounded to bfloat16",
        "mul",
        BITS + "lower(aten.mul.Tensor, rounded)\n",
        """
def model(x, w):
    a = torch.sigmoid(x)
    b = a * w  # here
    return torch.tanh(b) - 0.5


inputs = (torch.randn(64, 256), torch.randn(256))
""",
    ),
    NumericFault(
        "exp is rounded to bfloat16", "exp", BITS + "lower(aten.exp.default, rounded)\n", pointwise("torch.exp(-a)")
    ),
    NumericFault(
        "a cumulative sum is 0.1 % too large",
        "cumsum",
        "lower(aten.cumsum.default, times(1.001))\n",
        """
def model(x):
    a = x.abs()
    b = a.cumsum(-1)  # here
    return b - 1


inputs = (torch.randn(64, 128),)
""",
    ),
    NumericFault(
        "a variance divides by n - 1",
        "var_mean",
        """
def unbiased(original, x, dim=None, *, correction=None, keepdim=False):
    return original(x, dim, correction=1, keepdim=keepdim)


lower(aten.var_mean.correction, unbiased)
""",
        """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x):
        h = torch.relu(x)
        return self.norm(h)  # here


model = Model()
inputs = (torch.randn(32, 64),)
""",
    ),
)
"""Faults in the lowering of an op: results, indices, intermediate dtypes."""

BACKWARD = (
    NumericFault(
        "exp of the backward of gelu is 0.1 % too large",
        "exp",
        'generate("exp", scale(1.001))\n',
        module("torch.nn.functional.gelu(h)"),
        "exp()",
        train=True,
    ),
    NumericFault(
        "cos of the backward of sin is 1 % too large",
        "cos",
        'generate("cos", scale(1.01))\n',
        module("torch.sin(h)"),
        "cos()",
        train=True,
    ),
    NumericFault(
        "a sum of the backward is 1 % too large",
        "sum",
        "lower(aten.sum.dim_IntList, times(1.01))\n",
        """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(64))

    def forward(self, x):
        return torch.sin(x) * self.scale  # here


model = Model()
inputs = (torch.randn(32, 64),)
""",
        train=True,
    ),
    NumericFault(
        "a comparison of the backward of relu is inverted at zero",
        "le",
        "lowering.lowerings[aten.le.Scalar] = lowering.lowerings[aten.lt.Scalar]\n",
        """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(64))

    def forward(self, x):
        h = x.round() * self.scale
        return torch.relu(h)  # here


model = Model()
inputs = (torch.randn(32, 64) * 2,)
""",
        train=True,
    ),
    NumericFault(
        "the division of the backward of log is 0.2 % too large",
        "div",
        'generate("truediv", scale(1.002))\n',
        module("torch.log(h * h + 1)"),
        "/",
        train=True,
    ),
    NumericFault(
        "a negation of the backward of cos is 1 % too large",
        "neg",
        "lower(aten.neg.default, times(1.01))\n",
        module("torch.cos(h)"),
        train=True,
    ),
)
"""Faults that only the backward has."""


def decomposed(op: str, function: str, overload: str = "default") -> str:
    return f"decompose(aten.{op}.{overload}, {function})\n"


SOFTMAX = """
def model(x):
    a = x * 2
    return torch.softmax(a, -1) + 1  # here


inputs = (torch.randn(64, 256),)
"""

DECOMPOSITIONS = (
    NumericFault(
        "gelu is 0.1 % too large",
        "gelu",
        decomposed("gelu", 'lambda x, approximate="none": x * 0.5005 * (1 + torch.erf(x * 0.7071067811865476))'),
        pointwise("torch.nn.functional.gelu(a)"),
        stage="decomposition",
    ),
    NumericFault(
        "silu scales the input of its sigmoid by 1.001",
        "silu",
        decomposed("silu", "lambda x: x * torch.sigmoid(x * 1.001)"),
        pointwise("torch.nn.functional.silu(a)"),
        stage="decomposition",
    ),
    NumericFault(
        "softmax is 1 % too large",
        "_softmax",
        decomposed("_softmax", "lambda x, dim, half: torch.exp(x) / torch.exp(x).sum(dim, True) * 1.01"),
        SOFTMAX,
        stage="decomposition",
    ),
    NumericFault(
        "the backward of tanh is up to 1 % off",
        "tanh_backward",
        decomposed("tanh_backward", "lambda grad, y: grad * (1 - y * y * 1.01)"),
        module("torch.tanh(h)"),
        train=True,
        stage="decomposition",
    ),
    NumericFault(
        "the backward of sigmoid is 2 % too large",
        "sigmoid_backward",
        decomposed("sigmoid_backward", "lambda grad, y: grad * y * (1 - y) * 1.02"),
        module("torch.sigmoid(h)"),
        train=True,
        stage="decomposition",
    ),
    NumericFault(
        "the backward of relu scales gradients by 1.001",
        "threshold_backward",
        decomposed(
            "threshold_backward",
            "lambda grad, x, threshold: torch.where(x <= threshold, torch.zeros_like(x), grad) * 1.001",
        ),
        module("torch.relu(h)"),
        train=True,
        stage="decomposition",
    ),
    NumericFault(
        "the backward of softmax misses a factor",
        "_softmax_backward_data",
        decomposed("_softmax_backward_data", "lambda grad, y, dim, kind: y * (grad - (grad * y).sum(dim, True) * 0.9)"),
        module("torch.softmax(h, -1) * torch.arange(64, device=h.device)"),
        train=True,
        stage="decomposition",
    ),
)
"""Faults in Inductor's decompositions."""

PASS = """
def change(graph):
    for node in graph.nodes:
        {body}


config.post_grad_custom_post_pass = change
"""

PASSES = (
    NumericFault(
        "a pass changes a factor by 1 %",
        "mul",
        PASS.format(
            body="""if node.target is aten.mul.Tensor and node.args[1] == 0.5:
            node.args = (node.args[0], 0.505)"""
        ),
        pointwise("a * 0.5"),
        stage="pass",
    ),
    NumericFault(
        "a pass takes cos for sin",
        "cos",
        PASS.format(
            body="""if node.target is aten.sin.default:
            node.target = aten.cos.default"""
        ),
        pointwise("torch.sin(a)"),
        stage="pass",
    ),
    NumericFault(
        "a pass swaps the operands of a subtraction of the backward",
        "sub",
        PASS.format(
            body="""if node.target is aten.sub.Tensor and node.args[0] == 1:
            node.args = (node.args[1], 1)"""
        ),
        module("torch.tanh(h)"),
        train=True,
        stage="pass",
    ),
)
"""Faults in a pass over the post-grad graph."""

RACES = (
    NumericFault(
        "a sum over indices without atomics",
        "index_put_",
        """
from torch._inductor.codegen.cpp import CppKernel, CppVecKernel


def race(owner):
    # Add as if there were one thread.
    def store(self, name, index, value, mode=None, original=owner.store):
        threads, self.num_threads = self.num_threads, 1
        try:
            return original(self, name, index, value, mode)
        finally:
            self.num_threads = threads

    owner.store = store


race(CppKernel)
race(CppVecKernel)

if torch.cuda.is_available():
    import re

    from torch._inductor.codegen.triton import TritonKernel

    def store(self, name, index, value, mode=None, original=TritonKernel.store):
        original(self, name, index, value, mode)
        if mode == "atomic_add":
            last = self.stores._lines[-1]
            pattern = r"tl[.]atomic_add[(](.*), (tmp[0-9]+), (.*), sem='relaxed'[)]"
            last.line, count = re.subn(pattern, r"tl.store(\\1, tl.load(\\1, \\3) + \\2, \\3)", last.line)
            assert count == 1

    TritonKernel.store = store
""",
        """
def model(x, i):
    a = x * 2
    b = a.new_zeros(4).index_add(0, i, a)  # here
    return b + 1


inputs = (torch.rand(1 << 23), torch.randint(0, 4, (1 << 23,)))
""",
        "+=",
    ),
)
"""Faults that give other values in each call."""

FAULTS = (*CODEGEN, *LOWERINGS, *BACKWARD, *DECOMPOSITIONS, *PASSES, *RACES)
