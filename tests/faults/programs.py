"""Hostile model files as data: the program, how its run ends, and a part of the message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GOOD = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
FUNCTION = "import torch\ndef model(x):\n    return x.sin() + 1\ninputs = (torch.ones(4),)\n"
MODULE = "import torch\nclass M(torch.nn.Module):\n"
MADE = "model, inputs = M(), (torch.ones(4),)\n"
ERROR = "class E(Exception):\n"


@dataclass(frozen=True)
class Fault:
    """A program, and how its run ends: `ok`, or the stage, blame and type of its failure."""

    source: str
    ends: str | tuple[str, ...] = "ok"
    """Several if it depends on the version of torch."""
    text: str = ""
    """Part of the failure's message."""
    options: dict[str, Any] = field(default_factory=dict)


def _error(body: str, *, raised: str = "E") -> str:
    return f"{ERROR}{body}\nraise {raised}\n"


def _forward(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return f"{MODULE}    def forward(self, x):\n{lines}{MADE}"


EXCEPTIONS = {
    "null bytes": Fault("x = 1\0\n", "importing user SyntaxError", "null bytes"),
    "near name": Fault("import torhc\n", "importing user ModuleNotFoundError", "torhc"),
    "near name in torch": Fault("from torch import Tensr\n", "importing user ImportError", "Tensr"),
    "str exits": Fault(_error("  def __str__(self): raise SystemExit(9)"), "importing user E", "not be formatted"),
    "str interrupts": Fault(
        _error("  def __str__(self): raise KeyboardInterrupt"), "importing user E", "not be formatted"
    ),
    "str returns a number": Fault(_error("  def __str__(self): return 3"), "importing user E", "not be formatted"),
    "str is a hostile string": Fault(
        "class S(str):\n  def __getitem__(self, i): raise SystemExit(8)\n  strip = __len__ = __getitem__\n"
        + _error("  def __str__(self): return S('soft')"),
        "importing user E",
    ),
    "repr of an argument raises": Fault(
        "class R:\n  def __repr__(self): 1 / 0\nraise ValueError(R(), 1)\n",
        "importing user ValueError",
        "not be formatted",
    ),
    "attributes raise": Fault(
        _error("  def __getattribute__(self, name): raise SystemExit(7)"), "importing user E", ""
    ),
    "a syntax error with odd fields": Fault(
        "raise SyntaxError(3, (__file__, 'x', None, b'', 1, 2))\n", "importing user SyntaxError", "3"
    ),
    "a syntax error without text": Fault("e = SyntaxError(5)\nraise e\n", "importing user SyntaxError", "5"),
    "own cause": Fault("e = ValueError('loop')\ne.__cause__ = e\nraise e\n", "importing user ValueError", "loop"),
    "a chain of 3000 exceptions": Fault(
        "e = None\nfor i in range(3000):\n  n = ValueError(i)\n  n.__cause__ = e\n  e = n\nraise e\n",
        "importing user ValueError",
        "2999",
    ),
    "an endless type name": Fault(
        "raise type('E\\x1b[2J\\n' + 'x' * 1_000_000, (Exception,), {})\n", "importing user E␛[2J", "E␛[2J"
    ),
    "endless notes": Fault(
        "e = ValueError('n')\nfor _ in range(100): e.add_note('\\x1b[2J' * 100_000)\nraise e\n",
        "importing user ValueError",
        "n",
    ),
    "a group": Fault("raise ExceptionGroup('g', [ValueError(1)])\n", "importing user ExceptionGroup", "g (1 sub"),
    "a bare BaseException": Fault("class B(BaseException): pass\nraise B('base')\n", "importing user B", "base"),
    "GeneratorExit": Fault("raise GeneratorExit\n", "importing user GeneratorExit", "GeneratorExit"),
    "exit with a hostile value": Fault(
        "class R:\n  def __repr__(self): raise SystemExit(R())\nraise SystemExit(R())\n",
        "importing user SystemExit",
        "sys.exit",
    ),
    "escapes": Fault("raise ValueError('\\x1b]52;c;AAAA\\x07\\x9b2J\\u202e')\n", "importing user ValueError", "␛]52"),
    "in __init__": Fault(
        f"{MODULE}    def __init__(self):\n        raise KeyError('k')\n{MADE}", "importing user KeyError", "k"
    ),
    "only under Dynamo": Fault(
        _forward("if torch.compiler.is_compiling():\n    raise ValueError('traced')\nreturn x + 1"),
    ),
    "in backward": Fault(
        "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x * 2\n"
        "    @staticmethod\n    def backward(ctx, g): raise ValueError('backward')\n"
        "class M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = torch.nn.Parameter(torch.ones(4))\n    def forward(self, x): return F.apply(x * self.w)\n"
        + MADE,
        "eager user ValueError",
        "backward",
        {"train": True},
    ),
    "a recursion limit of 150": Fault(f"import sys\nsys.setrecursionlimit(150)\n{FUNCTION}"),
    "out of memory": Fault("x = bytearray(1 << 46)\n", "importing user MemoryError", "MemoryError"),
    "out of descriptors": Fault(
        "import os\nwhile True: os.open('/dev/null', 0)\n", "importing user OSError", "Too many open files"
    ),
}
"""Exceptions that are hard to show."""

INPUTS = {
    "a generator": Fault(f"{FUNCTION}inputs = (torch.ones(4) for _ in range(1))\n", "file user no entry", "generator"),
    "endless": Fault(
        f"import itertools\n{FUNCTION}inputs = itertools.repeat(torch.ones(4))\n", "file user no entry", "repeat"
    ),
    "None": Fault(f"{FUNCTION}inputs = None\n", "file user no entry", "inputs"),
    "a class": Fault(f"{FUNCTION}inputs = tuple\n", "eager user TypeError", "missing 1"),
    "raises when iterated": Fault(
        f"{FUNCTION}class T(tuple):\n    def __iter__(self): raise SystemExit(5)\ninputs = T((torch.ones(4),))\n",
        "importing user SystemExit",
        "sys.exit",
    ),
    "the wrong shape": Fault(f"{GOOD}inputs = (torch.ones(3),)\n", "eager user RuntimeError", "shape"),
    "too many": Fault(f"{FUNCTION}inputs = (torch.ones(4),) * 3\n", "eager user TypeError", "positional"),
    "on the meta device": Fault(f"{FUNCTION}inputs = (torch.ones(4, device='meta'),)\n", "ok"),
    "a model on the meta device": Fault(
        "import torch\nwith torch.device('meta'):\n    model = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n",
        "eager user RuntimeError",
        "meta",
    ),
    "a model whose attributes raise": Fault(
        "class M:\n    def __getattr__(self, name): raise SystemExit(6)\n"
        "    def __call__(self, x): return x\nmodel, inputs = M(), (1,)\n",
        "importing user SystemExit",
        "sys.exit",
    ),
    "a model whose repr raises": Fault(
        f"{MODULE}    def __repr__(self): raise SystemExit(4)\n    def forward(self, x): return x + 1\n{MADE}"
    ),
    "a result that cannot be compared": Fault(
        "class R:\n    def __eq__(self, other): raise ValueError\n    __repr__ = __hash__ = __bool__ = __eq__\n"
        + _forward("return R(), x + 1")
    ),
}
"""Inputs, models and results that are hard to handle."""

SABOTAGE = {
    "no stdout": Fault(f"import sys\nsys.stdout = sys.stderr = None\n{FUNCTION}"),
    "closed stdout": Fault(
        f"import sys\nsys.stdout.close()\nsys.stderr.close()\n{FUNCTION}",
        "dynamo compiler InternalTorchDynamoError",
        "closed file",
    ),
    "hostile stdout": Fault(
        "import sys\nclass W:\n    def __getattr__(self, name): raise SystemExit(3)\n"
        f"sys.stdout = sys.stderr = W()\n{FUNCTION}",
        "dynamo user SystemExit",
    ),
    "closed descriptors 0 to 2": Fault(f"import os\nos.closerange(0, 3)\n{FUNCTION}"),
    "closed descriptors in forward": Fault(_forward("__import__('os').closerange(0, 3)\nreturn x + 1")),
    "closes everything and loops": Fault("import os\nos.closerange(0, 4096)\nwhile True: pass\n", "worker user broken"),
    "a removed directory": Fault("import os, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nos.rmdir(d)\n" + FUNCTION),
    "removes itself": Fault(f"import os\nif os.path.exists(__file__): os.unlink(__file__)\n{FUNCTION}"),
    "signal handlers": Fault(
        "import signal\nfor number in set(signal.Signals) - {9, 19}:\n    signal.signal(number, signal.SIG_IGN)\n"
        + FUNCTION
    ),
    "signal mask": Fault("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\n" + FUNCTION),
    "an own alarm": Fault(
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.2, 0.01)\nwhile True: pass\n", "worker user SIGALRM"
    ),
    "no faulthandler": Fault(f"import faulthandler\nfaulthandler.disable()\n{FUNCTION}"),
    "a new session": Fault(f"import os\nos.fork() and os._exit(0)\nos.setsid()\n{FUNCTION}", "worker user os._exit"),
    "a thread that never ends": Fault(
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\n" + FUNCTION
    ),
    "atexit hangs": Fault(f"import atexit, threading\natexit.register(threading.Event().wait)\n{FUNCTION}"),
    "builtins": Fault(
        "import builtins\nbuiltins.print = builtins.open = builtins.repr = builtins.id = None\n" + FUNCTION,
        "importing user TypeError",
    ),
    "all builtins": Fault(
        "import builtins\nfor name in dir(builtins):\n    vars(builtins)[name] = None\n", "worker user broken"
    ),
    "no isinstance": Fault(
        f"{FUNCTION}import builtins\ndef isinstance(*_): raise SystemExit(2)\nbuiltins.isinstance = isinstance\n",
        "worker user broken",
    ),
    "no torch.compile": Fault(f"{FUNCTION}torch.compile = None\n", "arguments user TypeError"),
    "sys.modules": Fault(f"{FUNCTION}import sys\nsys.modules.clear()\n", "arguments user AttributeError"),
    "no torch in sys.modules": Fault(
        f"{FUNCTION}import sys\nsys.modules['torch'] = None\n",
        # The eager calls work; the arguments since torch 2.15.
        ("dynamo compiler ModuleNotFoundError", "arguments user ModuleNotFoundError"),
    ),
    "json": Fault(
        f"{FUNCTION}import json\njson.dumps = json.loads = lambda *_, **__: 1 / 0\n",
        "dynamo compiler ZeroDivisionError",
    ),
    "the encoder of json": Fault(
        f"{FUNCTION}import json\njson.JSONEncoder.iterencode = lambda *_, **__: 1 / 0\n", "worker user broken"
    ),
    "sendall": Fault(f"{FUNCTION}import socket\nsocket.socket.sendall = socket.socket.send = lambda *_: None\n"),
    "socket": Fault(f"{FUNCTION}import socket\nsocket.socket = None\n"),
    "struct": Fault(f"{FUNCTION}import struct\nstruct.Struct = struct.pack = struct.unpack = None\n"),
    "os.write": Fault(f"{FUNCTION}import os\nos.write = lambda *_: 0\n"),
    "os._exit": Fault(f"{FUNCTION}import os\nos._exit = lambda *_: None\n"),
    "os._exit, and then nothing works": Fault(
        f"{FUNCTION}import os, builtins\nos._exit = lambda *_: None\nbuiltins.isinstance = None\n", "worker user broken"
    ),
    "a process that keeps the socket": Fault(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nos._exit(5)\n",
        "worker user os._exit",
    ),
    "time": Fault(f"{FUNCTION}import time\ntime.perf_counter = time.monotonic = time.time = lambda: 0.0\n"),
    "a trace function": Fault(f"import sys\nsys.settrace(lambda *a: None)\n{FUNCTION}"),
    "a trace function that raises": Fault(
        f"{FUNCTION}import sys\ndef trace(*_): raise SystemExit(1)\nsys.settrace(trace)\n", "importing user SystemExit"
    ),
    "a profile function": Fault(f"import sys\nsys.setprofile(lambda *a: None)\n{FUNCTION}"),
    "no garbage collection": Fault(f"import gc\ngc.disable()\ngc.freeze()\n{FUNCTION}"),
    "warnings are errors": Fault(f"import warnings\nwarnings.simplefilter('error')\n{FUNCTION}"),
    "locale": Fault(f"import locale\nlocale.setlocale(locale.LC_ALL, 'C')\n{FUNCTION}"),
    "__file__": Fault(f"__file__ = __name__ = __spec__ = None\n{FUNCTION}"),
    "environment": Fault(
        "import os\nos.environ.clear()\nos.environ.update(TORCH_LOGS='nonsense', TORCHINDUCTOR_CACHE_DIR='/proc/x',"
        f" TORCH_TRACE='\\x1b', CXX='rm', TMPDIR='/proc/x')\n{FUNCTION}",
        "arguments user FileNotFoundError",
        "/proc/x",
    ),
    "few descriptors": Fault(f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n{FUNCTION}"),
    "no file may be written": Fault(f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{FUNCTION}"),
}
"""Changes to the process that tcexplore runs in."""

TORCH = {
    "default dtype": Fault(f"{FUNCTION}torch.set_default_dtype(torch.float64)\n"),
    "default device": Fault(f"{FUNCTION}torch.set_default_device('meta')\n"),
    "deterministic": Fault(f"{FUNCTION}torch.use_deterministic_algorithms(True)\n"),
    "inference mode": Fault(f"{FUNCTION}torch.inference_mode().__enter__()\n"),
    "no gradients": Fault(f"{FUNCTION}torch.set_grad_enabled(False)\n"),
    "a torch function mode": Fault(
        "import torch\nfrom torch.overrides import TorchFunctionMode\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, types, args=(), kwargs=None): return f(*args, **(kwargs or {}))\n"
        f"Mode().__enter__()\n{FUNCTION}"
    ),
    "a subclass that raises": Fault(
        "import torch\nclass T(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *_):\n"
        f"        raise ValueError('no')\n{FUNCTION}inputs = (torch.ones(4).as_subclass(T),)\n",
        "importing user ValueError",
        "no",
    ),
    "Dynamo disabled": Fault(f"{FUNCTION}torch._dynamo.config.disable = True\n"),
    "forced eager": Fault(f"{FUNCTION}torch.compiler.set_stance('force_eager')\n"),
    "compiled in the file": Fault(f"{FUNCTION}model = torch.compile(torch.compile(model, backend='eager'))\n"),
    "escapes in a name": Fault(
        f"{MODULE}    def __init__(self):\n        super().__init__()\n"
        "        self.add_module('a\\x1b[2J\\n', torch.nn.Linear(4, 4))\n"
        f"    def forward(self, x): return self._modules['a\\x1b[2J\\n'](x)\n{MADE}"
    ),
}
"""Torch in unusual states."""

OUTPUT = {
    "50 MB": Fault(f"import sys\nsys.stdout.write('x' * 50_000_000)\n{FUNCTION}"),
    "50 MB of errors": Fault(f"import os\nfor _ in range(50): os.write(2, b'\\n' * 1_000_000)\n{FUNCTION}"),
    "binary": Fault(f"import os\nos.write(1, bytes(range(256)) * 1000)\n{FUNCTION}"),
    "half a character": Fault(f"import os\nos.write(1, b'\\xf0\\x9f')\n{FUNCTION}"),
}

EXITS = {
    "killed in forward": Fault(
        _forward("__import__('os').kill(__import__('os').getpid(), 9)"), "worker user SIGKILL", "memory"
    ),
    "crash in forward": Fault(_forward("__import__('ctypes').string_at(0)"), "worker user SIGSEGV", "segmentation"),
    "crash in a compiled call after an optional stage": Fault(
        "import ctypes, torch\n@torch.library.custom_op('faults::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor: return x * 2\n"
        "@twice.register_fake\ndef _(x): return torch.empty_like(x)\n"
        "@torch.compiler.disable\ndef crash(): ctypes.string_at(0)\n"
        "def model(x):\n    if torch.compiler.is_compiling(): crash()\n    return twice(x)\n"
        "inputs = (torch.ones(4),)\n",
        "worker user SIGSEGV",
        "segmentation",
    ),
    "exit in forward": Fault(_forward("__import__('os')._exit(0)"), "worker user os._exit", "status 0"),
    "SystemExit in forward": Fault(_forward("raise SystemExit('x')"), "dynamo user SystemExit", "during the run"),
    "every descriptor": Fault("import os\nos.closerange(0, 4096)\n" + FUNCTION, "worker user os._exit"),
    "its parent": Fault("import os\nos.kill(os.getppid(), 9)\nwhile True: pass\n", "worker user SIGKILL"),
}
"""Ends of the process."""

ENDLESS = {
    "a loop": "print('begun', flush=True)\nwhile True: pass\n",
    "a loop that catches everything": (
        "import time\nprint('begun', flush=True)\nwhile True:\n  try: time.sleep(9)\n  except BaseException: pass\n"
    ),
    "stopped by itself": "import os\nprint('begun', flush=True)\nos.kill(os.getpid(), 19)\n",
    "children": (
        "import os, time\nfor _ in range(20):\n  if os.fork() == 0:\n    time.sleep(600)\n"
        "print('begun', flush=True)\ntime.sleep(600)\n"
    ),
    "a child in a session of its own": (
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(600)\n"
        "print('begun', flush=True)\ntime.sleep(600)\n"
    ),
    "output": "while True: print('begun' * 1000, flush=True)\n",
    "a lock": "import threading\nprint('begun', flush=True)\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n",
    "C code": "import ctypes\nprint('begun', flush=True)\nctypes.PyDLL(None).sleep(600)\n",
    "signals ignored": (
        "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
        "print('begun', flush=True)\nwhile True: pass\n"
    ),
}
"""Programs that do not end before the next save."""
