"""The first error in a program lists its other lines that are written as in other frameworks."""

from __future__ import annotations

import json
import linecache
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import wrong_calls
from eagerflow.hints.lookahead.rest_of_source import rest_of_source
from eagerflow.source import users_frame
from tests.hints.lookahead.wrong_programs import error_of, rest_of

_PROGRAMS = sorted((Path(__file__).parent / "pytorch_programs").glob("*.txt"))
_NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
_LINES = re.compile(r"^    line ([\d, ]+): ", re.MULTILINE)


@pytest.mark.parametrize("path", _PROGRAMS, ids=lambda p: p.stem)
def test_each_line_of_a_program_of_pytorch(path: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    source = path.read_text()
    marked = {i for i, line in enumerate(source.splitlines(), 1) if line.endswith("# told")}
    error = error_of(source, str(path))
    frame = users_frame(error)
    assert frame is not None
    rest = rest_of_source(error, frame) or ""
    told = {int(n) for lines in _LINES.findall(rest) for n in lines.split(",")}
    assert told | {frame.f_lineno} == marked


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ef.cuda.synchronize()", "line 3: ef.cuda.synchronize: x.item() and all that looks at"),
        ("ef.cuda.empty_cache()", "line 3: ef.cuda: ef.devices()"),
        (
            "ef.autograd.gradgradcheck(f, (x,))",
            "line 3: ef.autograd.gradgradcheck: ef.check_grads(",
        ),
        ("ef.autograd.functional.hessian(f, x)", "line 3: ef.autograd.functional.hessian: ef.hess"),
        (
            "ef.utils.benchmark.Timer(stmt='f(x)')",
            "line 3: ef.utils.benchmark.Timer: start = time.",
        ),
        ("ef.vmap(f, chunk_size=10)(x)", "line 3: ef.vmap: leave chunk_size= out: all rows run at"),
        ("ef.hessian(f)(x).diagonal()", "line 3: ef.hessian(f)(x).diagonal: ef.diagonal(x)"),
        ("ef.trace(f, fullgraph=True)", "line 3: ef.trace: use strict= instead of fullgraph="),
        ("q.rsample()", "line 3: q.rsample: p.sample(shape)"),
        ("p.key_averages().table()", "line 3: p.key_averages: print(profile) shows ops and lines"),
        ("x.pow(2)", "line 3: x.pow: x ** y"),
        ("ef.nn.utils.clip_grad_norm_(p, 1)", "line 3: ef.nn.utils.clip_grad_norm_: grads, norm ="),
        ("f(x).mean(dim=1)", "line 3: f(x).mean: use axis= instead of dim="),
        ("ef.ones(len(x), 3)", "line 3: ef.ones: the shape is one tuple"),
        (
            "ef.randn(2, requires_grad=True)",
            "line 3: ef.randn: leave requires_grad= out: ef.grad(f)",
        ),
        ("net = ef.nn.Linear(2, 3); net.to('cuda')", "line 3: net.to: leave it out on a CPU"),
        ("values, order = ef.sort(x, 1)", "line 3: values, order = ef.sort(x, 1): values and"),
        ("from eagerflow.optim import AveragedModel", "ef.optim.ExponentialMovingAverage"),
        ("x.transpose(1, 2)", "line 3: x.transpose: two axes are swapped by x.swapaxes(1, 2)"),
        ("f(x).transpose(-2, -1)", "line 3: f(x).transpose: two axes are swapped by x.swapaxes(-2"),
        ("ef.ones((2, 3, 4)).transpose(0, 1)", "two axes are swapped by x.swapaxes(0, 1)"),
        ("ef.transpose(x, 1, 2)", "line 3: ef.transpose: two axes are swapped by ef.swapaxes(x,"),
        (
            "ef.optim.SGD([{'params': a}, {'params': b}], lr=1)",
            "line 3: ef.optim.SGD: there are no",
        ),
        ("g = [{'params': a, 'lr': 1}]; ef.optim.Adam(g)", "ef.optim.Adam: there are no groups"),
        ("for g in opt.param_groups: g['lr'] = 1", "line 3: opt.param_groups: optimiser.lr is"),
        ("@f.register_fake\ndef _(x): ...", "line 3: f.register_fake: infer= of define"),
        ("f.register_autograd(g)", "line 3: f.register_autograd: vjp= of define"),
        ("ef.library.register_fake('a::b')", "line 3: ef.library.register_fake: infer= of define"),
        (
            "s = ef.optim.lr_scheduler.StepLR(o, 3)\ns.get_last_lr()",
            "line 4: s.get_last_lr: schedul",
        ),
        (
            "s = ef.optim.lr_scheduler.StepLR(o, 3)\ns.step()",
            "line 4: s.step: leave it out: the opt",
        ),
        (
            "ef.nn.MultiheadAttention(4, 2, batch_first=True)",
            "leave batch_first= out: the batch co",
        ),
        (
            "m = ef.nn.MultiHeadAttention(4, 2); m(x, x, x, attn_mask=y, need_weights=False)",
            "True means that a position is seen; leave need_weights= out: the output comes alone",
        ),
        ("m = ef.nn.MultiHeadAttention(4, 2); m(x, attn_mask=y)", "mask= stands for attn_mask=;"),
        ("net.parameters()", "net.parameters is a dict of these and the frozen ones, without buf"),
        (
            "import copy\na = ef.nn.Linear(2, 3)\nb = copy.deepcopy(a)\nb.state_dict()",
            "line 6: b.st",
        ),
        ("ef.data.Dataset.from_list([])", "line 3: ef.data.Dataset.from_list: Dataset.from_iter"),
        ("q = net(x).max(-1)[0]", "line 3: net(x).max(-1)[0]: values and indices are two calls"),
        ("ef.median(x, 1)[1]", "line 3: ef.median(x, 1)[1]: the result is the values alone"),
        ("x.sort(axis=1)[0]", "line 3: x.sort(axis=1)[0]: values and indices are two calls"),
        ("ef.data.DataLoader(x, collate_fn=f)", "ef.data.DataLoader: data.padded_batch(16) in"),
        ("ef.nn.utils.rnn.pad_sequence(x)", "rnn.pad_sequence: dataset.padded_batch(16) pads"),
        (
            "ef.random.randint(0, 10, (3,))",
            "line 3: ef.random.randint: the shape comes first, as one",
        ),
        ("ef.random.uniform(0.0, 1.0, n)", "as one tuple: uniform((2, 3), low, high)"),
        ("ef.random.normal(a, b, (3, 4))", "line 3: ef.random.normal: the shape comes first"),
        ("ef.random.normal([3, 4], 1.0)", "line 3: ef.random.normal: the shape comes first"),
        (
            "g = ef.random.Generator(1); g.randint(0, 10, (3,))",
            "line 3: g.randint: the shape comes first",
        ),
        ("q(s).gather(1, a)", "line 3: q(s).gather: ef.take_along_axis(x, indices, axis)"),
        ("y.gather(dim=1, index=a)", "line 3: y.gather: ef.take_along_axis(x, indices, axis)"),
        ("f(x).expand(-1, 4)", "line 3: f(x).expand: ef.broadcast_to(x, shape)"),
        ("ef.sort(x, 1, axis=1)", "line 3: ef.sort: the call is sort(x, /, axis=-1"),
        ("q(s).max(1).indices", "line 3: q(s).max(1).indices: values and indices are two calls"),
        ("q(s).max(axis=1).values", "line 3: q(s).max(axis=1).values: values and indices"),
        ("x.exp_()", "line 3: x.exp_: tensors are values: x = ef.exp(x); of a variable"),
        ("m.clamp_(0, 1)", "line 3: m.clamp_: tensors are values: x = x.clip(low, high)"),
        ("w.uniform_(0, 1)", "line 3: w.uniform_: x[...] = ef.random.uniform(x.shape, low, high)"),
        ("optimizer.step()", "line 3: optimizer.step: zero_grad, backward and step are two lines"),
        ("loss = None\nloss.backward()", "line 4: loss.backward: zero_grad, backward and step"),
        ("x.to(d, non_blocking=True)", "line 3: x.to: leave non_blocking= out: what is copied"),
        ("x.amax(dim=1)", "line 3: x.amax: ef.amax(x, axis)"),
        ("ef.dropout(x)", "line 3: ef.dropout: ef.nn.functional.dropout(x, p=0.5"),
        (
            "ef.checkpoint.save({'a': x}, path)",
            "ef.checkpoint.save: the path comes first: ef.check",
        ),
        ("ef.save(net.state_dict(), 'net.pt')", "line 3: ef.save: the path comes first: ef.checkp"),
        ("ef.save(values, f'{x}.pt')", "line 3: ef.save: the path comes first: ef.checkpoint.save"),
        ("v = ef.Variable(x)\nv[1:3] = 0", "line 4: v[1:3]: of a variable: v.scatter_update(rows"),
        (
            "for n, p in net.parameters.items():\n    p[2:4] = 1.0",
            "line 4: p[2:4]: of a variable: v.scatter_update(rows, x) for rows, such as",
        ),
        ("for p in net.parameters():\n    p[0] = 1.0", "line 4: p[0]: of a variable: v.scatter_"),
        (
            "class Rows(ef.data.Dataset): ...",
            "line 3: class Rows(ef.data.Dataset): leave out the base: an object with __len__ and",
        ),
        (
            "from eagerflow.utils.data import Dataset\nclass Rows(Dataset): ...",
            "line 4: class Rows(Dataset): leave out the base: an object with __len__ and __getit",
        ),
        (
            "class Net(ef.nn.Module):\n    def __init__(self):\n        self.apply(f)",
            "line 5: self.apply: for module in net.modules(): ...",
        ),
        (
            "from eagerflow.nn.utils.rnn import pad_sequence, pack_sequence",
            "pack_sequence: dataset.padded_batch(16) pads sequences to one length, of a list x = "
            "next(iter(ef.data.Dataset.from_iterable(rows).padded_batch(len(rows)))); recurrent "
            "layers take their lengths: lstm(x, lengths=lengths)\n",
        ),
        ("ef.optim.schedules.warmup(3)", "line 3: ef.optim.schedules.warmup: a schedule is"),
    ],
)
def test_a_line(line: str, hint: str) -> None:
    rest = rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{line}\n")
    assert rest is not None
    assert hint in f"{rest}\n"


@pytest.mark.parametrize(
    "line",
    [
        "x.exp",
        "m.exp(x)",
        "re.compile('a').sub('b', x)",
        "self.backward()",
        "ef.zeros(3, ef.float64)",
        "ef.full((2, 3), 1)",
        "values = ef.sort(x, 1)",
        "queue.size()",
        "ef.nn.Linear(2, 3)(ef.ones(2))",
        "net.modules()",
        "ef.sum(*args, **options)",
        "x.transpose(1, 0)",
        "x.transpose(0, 2, 1)",
        "x.transpose(i, j)",
        "x.transpose((0, 2, 1))",
        "low = points.max(0)[0]",
        "x.max(i)[0]",
        "x.max()[0]",
        "x.max(1)[2]",
        "ef.sort(x, axis=1)",
        "ef.random.randint((3,), 0, 10)",
        "ef.random.randint(shape, 0, 10)",
        "ef.random.uniform(x.shape, 0.0, high)",
        "ef.random.normal(5)",
        "ef.random.normal(*arguments)",
        "comm.gather(1, root=0)",
        "loop.gather(first, second)",
        "group.gather(1)",
        "frame.expand(2, 3)",
        "scheduler_of_jobs.step()",
        "close_(x); x.close_()",
        "frame.values, frame.indices",
        "x = ef.zeros(3)\nx[0] = 1.0",
        "for name, row in table.items():\n    row[0] = 1.0",
        "ef.checkpoint.save(path, {'a': 1})",
        "ef.checkpoint.save('a', tree)",
        "class Net(ef.nn.Module):\n    def apply(self, f): ...\n    def run(self): self.apply(f)",
        "class Net(ef.nn.Module):\n    @staticmethod\n    def run(x): x.apply(f)",
        "class Rows(Dataset): ...",
    ],
)
def test_what_is_right_or_of_others_is_not_told(line: str) -> None:
    before = "import eagerflow as ef\nimport re\ndef backward(self): ...\nef.manual_seed(0)\n"
    assert rest_of(before + line) is None


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ("lr=lambda n: 0.1", True),
        ("lr=schedule", True),
        ("lr=made", True),
        ("lr=ef.optim.StepSchedule(0.1, step_size=3)", True),
        ("schedule", True),
        ("lr=0.1", False),
        ("lr=unknown", False),
    ],
)
def test_a_rate_in_text(rate: str, told: bool) -> None:
    source = (
        "import eagerflow as ef\nef.manual_seed(0)\nmade = lambda n: 0.1\n"
        f"def schedule(n): return 0.1\nopt = ef.optim.SGD([v], {rate})\nf'{{opt.lr:.4f}}'\n"
    )
    rest = str(rest_of(source))
    assert ("line 6: opt.lr: schedule(n) is the rate after n updates" in rest) == told


def test_a_hint_of_several_lines_is_shown_once() -> None:
    line = "ef.library.custom_op\n"
    error = error_of(f"import eagerflow as ef\n{line}{line}", "<cell>")
    rest = rest_of_source(error, users_frame(error))
    assert rest == "  in the same source:\n    line 3: ef.library.custom_op: the same"


@pytest.mark.parametrize("path", sorted(_NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_nothing_is_told_of_our_notebooks(path: Path) -> None:
    cells = [c["source"] for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    lines = "\n".join("".join(cell) for cell in cells).splitlines()
    source = "\n".join(line for line in lines if line[:1] not in ("%", "!"))
    assert rest_of("import eagerflow as ef\nef.manual_seed(0)\n" + source) is None


def test_tensors_of_programs_with_pytorch_are_its_own() -> None:
    source = "import eagerflow as ef\nimport {}\nef.manual_seed(0)\nx.detach()\n"
    assert rest_of(source.format("math")) is not None
    assert rest_of(source.replace("import {}", "if 0: import torch")) is None


_MANAGER = "manager = ef.checkpoint.Manager(path)\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("manager.save({}, step=3)", "line 4: manager.save: the call is save(step, tree, metrics"),
        ("if manager.latest: pass", "if manager.latest: it is a method: manager.latest() is not"),
        ("x = 1 if not manager.steps else 2", "it is a method: manager.steps()"),
    ],
)
def test_wrong_uses_of_methods_of_known_objects(line: str, hint: str) -> None:
    before = f"import eagerflow as ef\nef.manual_seed(0)\n{_MANAGER}"
    assert hint in str(rest_of(before + line))


@pytest.mark.parametrize(
    "line",
    ["manager.save(3, {}, metrics=m)", "manager.save(*a, step=3)", "if manager.directory: pass"],
)
def test_right_uses_of_methods_of_known_objects(line: str) -> None:
    assert rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{_MANAGER}{line}") is None


def test_an_attention_of_pytorch_has_the_hints_for_its_name_arguments_and_results() -> None:
    told = str(rest_of(
        "import eagerflow as ef\nef.manual_seed(0)\n"
        "a = ef.nn.MultiheadAttention(8, 2, batch_first=True)\n"
        "y, _ = a(1, 1, 1)\n"
    ))  # fmt: skip
    assert "line 3: ef.nn.MultiheadAttention: leave batch_first= out" in told
    assert "did you mean 'MultiHeadAttention'?" in told
    assert "line 4: y, _ = a(1, 1, 1): the output comes alone, without the weights" in told


def test_parts_of_results_in_programs_with_pytorch_are_its_own() -> None:
    source = "import eagerflow as ef\nif 0: import {}\nef.manual_seed(0)\nx.max(1)[0]\n"
    assert rest_of(source.format("math")) is not None
    assert rest_of(source.format("torch")) is None


@pytest.mark.parametrize(
    "first",
    ["with ef.spawn(int, runs=1) as c:", "for c in []:", "c = ef.spawn(int, runs=1)\nif c:"],
)
@pytest.mark.parametrize("at", [1, 3])
def test_a_name_of_objects_of_two_kinds_has_no_hint(first: str, at: int) -> None:
    """Whether the error comes before the name stands for a queue, or after."""
    parts = [f"{first}\n    c.join()", "c = ef.Queue(1, 'i64[]')", "def f(): c.join()"]
    parts.insert(at, "ef.manual_seed(0)")
    assert "c.join" not in (rest_of("\n".join(["import eagerflow as ef", *parts])) or "")


def test_a_name_of_one_kind_has_its_hints() -> None:
    source = "import eagerflow as ef\nef.manual_seed(0)\nq = ef.Queue(1, 'i64[]')\nq.get_many(8)"
    assert "line 4: q.get_many: queue.dequeue_many(n)" in (rest_of(source) or "")


def test_threads_that_fail_alike_tell_the_rest_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", wrong_calls._show_of_thread)
    monkeypatch.setattr(wrong_calls, "_told_in_threads", {})
    source = "import eagerflow as ef\ndef f(): ef.manual_seed(0)\ndef g(): ef.cuda.synchronize()"
    file = "<threads>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)
    for _ in range(3):
        thread = threading.Thread(target=names["f"])
        thread.start()
        thread.join()
    told = capsys.readouterr().err
    assert told.count("UnknownNameError") == 3
    assert told.count("in the same source") == 1


def test_lines_with_one_hint_name_their_expressions() -> None:
    lines = "a.size(0)\nb.size(1)\na.size(1)\nc.size(0)\nd.size(0)\n"
    rest = rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{lines}")
    assert "line 3, 4, 5, 6, 7: a.size, b.size, c.size, …: x.shape" in str(rest)
    step = "opt = ef.optim.SGD([v], lr=0.1)\nopt.zero_grad()\nloss.backward()\nopt.step()\n"
    rest = rest_of(f"import eagerflow as ef\nef.manual_seed(0)\n{step}")
    assert "line 4, 5, 6: opt.zero_grad, loss.backward, opt.step: zero_grad" in str(rest)
    assert len(str(rest).splitlines()) == 2


def test_the_same_mistake_in_another_line_is_told() -> None:
    rest = rest_of("import eagerflow as ef\nef.nn.ReLU\nef.nn.relu\n")
    assert rest is not None
    assert "line 3: ef.nn.relu: use the function ef.nn.functional.relu" in rest
    assert "line 2" not in rest


_LENGTHS = """
import eagerflow as ef
def run():
    samples, batches = ef.Queue(4, "i64[]"), ef.Queue(4, "i64[]")
    barrier = ef.Barrier(("f32[]",), name="b")
    print(len(samples), len(batches), len([]))
    for i in range(len(samples)):
        print(len(barrier), len("text"), len(unknown))
run()
"""


def test_other_lengths_of_queues_are_told() -> None:
    assert rest_of(_LENGTHS) == (
        "  in the same source:\n"
        "    line 6: len(batches): batches.size() is the number of elements\n"
        "    line 7: len(samples): samples.size() is the number of elements\n"
        "    line 8: len(barrier): barrier.ready_size() and barrier.incomplete_size() are the "
        "numbers of elements"
    )


def test_a_function_of_the_source_may_be_called_len() -> None:
    assert rest_of(f"def len(x): return 1\n{_LENGTHS}ef.absent") is None


def test_the_mistake_of_the_error_is_not_told_again() -> None:
    make = "import eagerflow as ef\ndef f(x): return x.state_dict()\n"
    assert rest_of(make + "for x in [ef.nn.Linear(2, 3)]: f(x)\n") is None


def test_a_parameter_is_not_what_another_function_assigns() -> None:
    rest = rest_of(
        "import eagerflow as ef\n"
        "def loss(reward, done): return reward.unsqueeze(1) * (1.0 - done.float())\n"
        "def roll(): done = False\n"
        "loss(ef.ones(3), ef.ones(3))\n"
    )
    assert "line 2: done.float: x.astype(ef.float32)" in str(rest)


def test_without_a_source_nothing_is_told() -> None:
    error = error_of("import eagerflow as ef\nef.manual_seed(0)\nx.detach()\n", "<gone>")
    del linecache.cache["<gone>"]
    assert rest_of_source(error, users_frame(error)) is None
    assert rest_of_source(error, None) is None


def test_long_lists_end() -> None:
    names = [n for n in dir(ef.nn.functional) if not n.startswith("_")]
    source = "".join(f"ef.nn.{n}\nef.random.{n}\n" for n in names if not hasattr(ef.nn, n))
    rest = rest_of("import eagerflow as ef\nef.manual_seed(0)\n" + source)
    assert rest is not None
    assert re.search(r"\n    and \d+ more$", rest)


def test_an_import_is_told_with_all_names_that_are_lacking() -> None:
    source = (
        "import eagerflow as ef\nef.manual_seed(0)\n"
        "from eagerflow.distributions import Normal, kl_divergence, Independent\n"
    )
    rest = rest_of(source) or ""
    assert "ef.distributions.kl(p, q)" in rest
    assert "p.log_prob(x).sum(-1)" in rest


def test_a_method_of_numpy_is_told_of_results_of_eagerflow_alone() -> None:
    source = (
        "import numpy as np\nimport eagerflow as ef\nef.manual_seed(0)\n"
        "m = np.ones((2, 2))\nm.diagonal()\nh = ef.jacobian(f)(x)\nh.diagonal()\n"
        "ef.ones((2, 2)).numpy().diagonal()\n"
    )
    rest = rest_of(source) or ""
    assert "line 7: h.diagonal: ef.diagonal(x)" in rest
    assert rest.count("diagonal") == 2


def test_functions_of_the_namespace_of_a_kernel_are_not_told() -> None:
    source = (
        "import eagerflow as ef\nef.manual_seed(0)\n"
        "def kernel(xp, x):\n    return xp.exp(-x) + xp.sum(x)\n"
    )
    assert rest_of(source) is None
