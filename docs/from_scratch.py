# %% [markdown]
# # eagerflow from scratch
# A small eagerflow in one file: eager arrays, gradients, traced functions, graphs, passes,
# generated code, state. It needs NumPy and nothing of eagerflow, and it is built as the real one
# is: the same parts under the same names, cut down to what shows the idea. You should know NumPy.
# Run it with `python docs/from_scratch.py`, or cell by cell in VS Code or JupyterLab (jupytext).
# Every section ends with an example; CI runs them all.
# %%
# fmt: off
from __future__ import annotations

import dis
import time
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, reduce
from inspect import signature
from itertools import chain, count
from types import CodeType, FunctionType, ModuleType, SimpleNamespace

import numpy as np


# %% [markdown]
# ## 1. Ops are records, and there is one funnel: `bind`
# The *type* of a tensor is what is known of it without its data. A size is an int, or a `Dim`, of
# which only the name is known. (Dims are for section 7; until then, all sizes are ints.)
# %%
class TraceError(TypeError): ...  # what a trace cannot follow
class LeakedTensorError(RuntimeError): ...  # a tensor of a trace, used outside of it

@dataclass(eq=False)
class Dim:
    """A size that differs from call to call: what Python code does must not depend on it."""
    name: str
    __repr__ = lambda self: self.name
    def _ask(self, *_):
        raise TraceError(f"Python asks for the size {self}, which differs from call to call")
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __index__ = __hash__ = _ask

same = lambda a, b: a is b or repr(a) == repr(b)  # of sizes or shapes; asks for no size
def broadcast(p, q):
    """The size that two sizes broadcast to; what is not known yet is left to the kernel."""
    if same(p, q) or same(q, 1):
        return p
    if same(p, 1) or (isinstance(p, Dim) and isinstance(q, int)):
        return q
    if isinstance(p, int) and isinstance(q, int):
        raise ValueError(f"sizes {p} and {q} do not broadcast")
    return p if isinstance(p, int) else Dim(f"broadcast({p},{q})")

@dataclass(frozen=True, eq=False)
class TensorType:
    dtype: np.dtype
    shape: tuple[int | Dim, ...]
    __repr__ = lambda t: f"{t.dtype.kind}{8 * t.dtype.itemsize}[{','.join(map(str, t.shape))}]"

# %% [markdown]
# An *op* is one kind of computation. Its record says all there is to say about it: a type rule, a
# gradient rule for each input, its effect on state. Only the *kernel*, which computes it on arrays,
# stands elsewhere, in a table. There is one way to apply an op: `bind` hands it to whoever is in
# charge at the moment (section 2). What users call is a *public function*, which makes tensors of
# its arguments and binds an op. Here these functions are all alike, so `define` makes them.
#
# A *tensor* is a handle on a value: an array, or in a trace a `Symbol` that stands for one (section
# 4). Arrays are never written into. `_mark` is what tapes have noted of the value (section 3).
# %%
@dataclass(frozen=True, eq=False)
class Op:
    name: str
    infer: Callable  # infer(*types, **attrs): the type of the output
    vjp: tuple  # for each input rule(g, out, *inputs, **attrs): its cotangent, g is that of out
    effect: str = "pure"  # or "reads", "writes"

ops, kernels, functions = {}, {}, {}
def bind(op, *inputs, **attrs):
    """Apply ``op``: the only way from a function to a kernel, a tape or a graph."""
    return current.get().bind(op, inputs, attrs)

def define(name, kernel, infer, *vjp, effect="pure"):
    """Define an op; gives its public function."""
    op = ops[name] = Op(name, infer, vjp, effect)
    kernels[name] = kernel
    functions[name] = lambda *inputs, **attrs: bind(op, *operands(*inputs), **attrs)
    return functions[name]

class AbstractArray: ...  # what has operators, and a `value` for them: tensors, variables

class Tensor(AbstractArray):
    def __init__(self, data, mark=None):
        self._data, self._mark = data, mark or {}
    numpy = lambda self: self._data if isinstance(self._data, np.ndarray) else self._data.no_value()
    value = property(lambda self: self)
    type = property(lambda self: TensorType(self._data.dtype, self._data.shape))
    __repr__ = lambda self: f"Tensor({self._data}, {self.type})"
    __float__ = lambda self: float(self.numpy())
    __bool__ = lambda self: bool(self.numpy())

tensor = lambda data, dtype=np.float32: Tensor(np.array(data, dtype))
def operands(*xs):
    """All as tensors. A Python number is weak: it takes the dtype of its partner."""
    tensors = [x.value if isinstance(x, AbstractArray) else x for x in xs]
    dtype = next((x.type.dtype for x in tensors if isinstance(x, Tensor)), np.float32)
    return [x if isinstance(x, Tensor) else tensor(x, dtype) for x in tensors]

# %% [markdown]
# Now the ops. Gradient rules are written with public functions, never with NumPy, which pays three
# times: gradients have gradients, they can be traced, and they hold for every size. `sum_to_like`
# undoes broadcasting. It is an op because only its kernel may know which of the sizes are 1.
# (Left out: gradients where dtypes are mixed, and what the type rule of `matmul` should refuse.)
# %%
def elementwise(*types):
    """The type rule of ops that work element by element, and broadcast."""
    shape = (1,) * max(len(t.shape) for t in types)
    for t in types:
        shape = tuple(map(broadcast, shape, (1,) * (len(shape) - len(t.shape)) + t.shape))
    return TensorType(np.result_type(*[t.dtype for t in types]), shape)

def sum_to(g, like):
    lead = g.ndim - like.ndim
    axes = [i for i in range(g.ndim) if i < lead or g.shape[i] != like.shape[i - lead]]
    return g.sum(axis=tuple(axes)).reshape(like.shape)

def binary(name, kernel, rule1, rule2):
    """Define an op of two operands, from gradient rules that do not think of broadcasting."""
    fit = lambda g, like: g if same(g.type.shape, like.type.shape) else sum_to_like(g, like)
    vjp1 = lambda g, out, x, y: fit(rule1(g, out, x, y), x)
    vjp2 = lambda g, out, x, y: fit(rule2(g, out, x, y), y)
    return define(name, kernel, elementwise, vjp1, vjp2)

add = binary("add", np.add, lambda g, out, x, y: g, lambda g, out, x, y: g)
subtract = binary("subtract", np.subtract, lambda g, out, x, y: g, lambda g, out, x, y: -g)
multiply = binary("multiply", np.multiply, lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)
divide = binary("divide", np.divide, lambda g, out, x, y: g / y, lambda g, out, x, y: -g * out / y)
negative = define("negative", np.negative, elementwise, lambda g, out, x: -g)
exp = define("exp", np.exp, elementwise, lambda g, out, x: g * out)
tanh = define("tanh", np.tanh, elementwise, lambda g, out, x: g * (1.0 - out * out))
transpose = define("transpose", np.transpose, lambda x: TensorType(x.dtype, x.shape[::-1]),
                   lambda g, out, x: transpose(g))
matmul = define("matmul", np.matmul, lambda x, y: TensorType(x.dtype, (x.shape[0], y.shape[1])),
                lambda g, out, x, y: g @ transpose(y), lambda g, out, x, y: transpose(x) @ g)
sum = define("sum", np.sum, lambda x: TensorType(x.dtype, ()),
             lambda g, out, x: broadcast_like(g, x))
size = define("size", lambda x: np.array(x.size, x.dtype), lambda x: TensorType(x.dtype, ()), None)
sum_to_like = define("sum_to_like", sum_to, lambda g, like: like,
                     lambda h, out, g, like: broadcast_like(h, g), None)
broadcast_like = define("broadcast_like", lambda g, like: np.broadcast_to(g, like.shape),
                        lambda g, like: like, lambda h, out, g, like: sum_to_like(h, g), None)
constant = define("constant", lambda *, value: value,
                  lambda *, value: TensorType(value.dtype, value.shape))
mean = lambda x: sum(x) / size(x)  # a composition: it needs no op and no rule of its own
AbstractArray.__add__ = AbstractArray.__radd__ = add
AbstractArray.__mul__ = AbstractArray.__rmul__ = multiply
AbstractArray.__sub__, AbstractArray.__rsub__ = subtract, lambda x, y: subtract(y, x)
AbstractArray.__truediv__, AbstractArray.__rtruediv__ = divide, lambda x, y: divide(y, x)
AbstractArray.__matmul__, AbstractArray.__neg__ = matmul, negative

f32 = partial(TensorType, np.dtype(np.float32))
print(ops["add"].infer(f32((8, 1)), f32((Dim("n"),))))  # the types are enough for a rule: f32[8,n]

# %% [markdown]
# ## 2. Interpreters: a chain, with eager execution at the bottom
# Who is in charge of ops is an *interpreter*. Those of a thread form a chain: the one installed
# last gets an op first, and may pass it to the one `below`. The lowest one runs kernels. Gradients
# and tracing are interpreters as well, and no function above will change for them.
# %%
class AbstractInterpreter: ...  # has bind(op, inputs, attrs); `installed` sets `below`

class Eager(AbstractInterpreter):
    def bind(self, op, inputs, attrs):
        return Tensor(np.asarray(kernels[op.name](*[x.numpy() for x in inputs], **attrs)))

BASE = Eager()
current = ContextVar("interpreter", default=BASE)

@contextmanager
def installed(interpreter, below=None):
    """Put ``interpreter`` on top of the chain, or of ``below``, for the length of a block."""
    interpreter.below = below or current.get()
    token = current.set(interpreter)
    try:
        yield interpreter
    finally:
        current.reset(token)

class Monitor(AbstractInterpreter):
    def bind(self, op, inputs, attrs):
        print("  bind", op.name, *[x.type for x in inputs])
        return self.below.bind(op, inputs, attrs)
with installed(Monitor()):
    assert float(mean(tensor([[1, 2], [3, 4]]) * 2.0)) == 5.0

# %% [markdown]
# ## 3. Gradients: a tape
# A *tape* passes each op on, and keeps a *record* of it if an input depends on what is watched. It
# knows a value by its *slot*, a number noted in the handle: `_mark` has a note of each tape that
# knows the value, so tapes can be nested. Going back is a loop over the records: the cotangent of
# the output goes to the op's rules, and what they give is added up.
# %%
class Tape(AbstractInterpreter):
    """Records what depends on watched tensors and on reads of ``variables`` (section 8)."""
    def __init__(self, variables=()):
        self.owner, self.slots, self.records = object(), count(), []
        self.reads = {v: [] for v in variables}  # the slots of the reads of each
    def watch(self, x):
        slot = next(self.slots)
        x._mark = {**x._mark, self.owner: slot}
        return slot
    def bind(self, op, inputs, attrs):
        out = self.below.bind(op, inputs, attrs)
        slots = [x._mark.get(self.owner) for x in inputs]
        if op.effect == "reads" and attrs["resource"] in self.reads:
            self.reads[attrs["resource"]].append(self.watch(out))
        elif any(slot is not None for slot in slots):
            self.records.append((op, inputs, attrs, out, slots, self.watch(out)))
        return out
    def cotangents(self, result):
        """By slot. The rules go through ``bind``, so that an outer tape or a trace sees them."""
        cotangents = {result._mark.get(self.owner): tensor(1.0, result.type.dtype)}
        for op, inputs, attrs, out, in_slots, out_slot in reversed(self.records):
            for slot, rule in zip(in_slots, op.vjp, strict=True):
                if out_slot in cotangents and slot is not None and rule is not None:
                    g = rule(cotangents[out_slot], out, *inputs, **attrs)
                    cotangents[slot] = cotangents[slot] + g if slot in cotangents else g
        return cotangents

def value_and_grad(f, wrt=()):
    """What ``f`` gives, and its gradients: by the variables ``wrt``, or by the first argument."""
    def both(x, *rest):
        x = Tensor(x._data, x._mark)  # a handle of our own to note something in
        with installed(Tape(wrt)) as tape:
            slot = None if wrt else tape.watch(x)
            result = f(x, *rest)
        cotangents = tape.cotangents(result)
        by_variable = [reduce(add, [cotangents[slot] for slot in tape.reads[v]]) for v in wrt]
        return result, by_variable if wrt else cotangents[slot]
    return both
grad = lambda f: lambda x, *rest: value_and_grad(f)(x, *rest)[1]

m, t, step = tensor([[0.5, -1.0], [2.0, 0.3]], np.float64), tensor(0.7, np.float64), 1e-5
f = lambda t: mean(tanh(m @ transpose(m - t)) / (1.0 + exp(-m * t)))
for function, derivative in [(f, grad(f)), (grad(f), grad(grad(f)))]:
    numeric = float(function(t + step) - function(t - step)) / (2 * step)
    print(f"{float(derivative(t)):.8f}, numerically {numeric:.8f}")
    assert np.isclose(float(derivative(t)), numeric)

# %% [markdown]
# ## 4. Tracing: ops are written down
# To trace a function is to run it once on *symbolic* tensors. The `Tracer` asks the type rule of
# each op for the type of the output, and appends a node to a *graph*; nothing is computed. A
# concrete tensor becomes a constant, unless it is known where it comes from (section 7). (In
# eagerflow a node can have several outputs, each a `Value`. Here a node is its only value.)
# %%
@dataclass(eq=False)
class Node:
    name: str
    type: TensorType
    op: Op | None = None  # None for an input of the graph
    inputs: tuple[Node, ...] = ()
    attrs: dict | None = None

class Graph:
    """Nodes in an order in which they can run."""
    def __init__(self, name):
        self.name, self.inputs, self.nodes, self.outputs, self.names = name, [], [], [], set()
    def add(self, base, type, op=None, inputs=(), attrs=None):
        """Append a node, or an input if there is no op."""
        tries = chain([base], (f"{base}_{i}" for i in count(1)))
        node = Node(next(n for n in tries if n not in self.names), type, op, inputs, attrs)
        self.names.add(node.name)
        (self.nodes if op else self.inputs).append(node)
        return node
    def __str__(self):
        names = lambda nodes: ", ".join(f"%{n.name}" for n in nodes)
        text = f"graph {self.name}({', '.join(f'%{n.name}: {n.type}' for n in self.inputs)}) {{\n"
        for n in self.nodes:
            attrs = "".join(f" {{{k}={v}}}" for k, v in n.attrs.items())
            text += f"  %{n.name} = {n.op.name}({names(n.inputs)}){attrs} : {n.type}\n"
        return text + f"  return {names(self.outputs)}\n}}"

@dataclass
class Symbol:
    """What a symbolic tensor holds in the place of an array."""
    tracer: Tracer
    node: Node
    dtype = property(lambda self: self.node.type.dtype)
    shape = property(lambda self: self.node.type.shape)
    def no_value(self):
        where = f"%{self.node.name} of the trace of {self.tracer.graph.name}"
        if self.tracer.alive:
            raise TraceError(f"{where} has no value yet, and Python asks for it")
        raise LeakedTensorError(f"{where} is used outside of it: return it instead")

class Tracer(AbstractInterpreter):
    def __init__(self, name):
        self.graph, self.alive = Graph(name), True
        self.known = {}  # inputs that stand for tensors from outside, by id of the array
    def node_of(self, x):
        if isinstance(x._data, Symbol):
            return x._data.node if x._data.tracer is self else x._data.no_value()
        if id(x._data) in self.known:
            return self.known[id(x._data)]
        return self.graph.add("constant", x.type, ops["constant"], (), {"value": x._data})
    def bind(self, op, inputs, attrs):
        nodes = tuple(self.node_of(x) for x in inputs)
        type = op.infer(*[n.type for n in nodes], **attrs)
        return Tensor(Symbol(self, self.graph.add(op.name, type, op, nodes, attrs)))

def graph_of(f, *arguments, outside=()):
    """Trace ``f``, given its arguments (of tensors the type) and the tensors it finds outside."""
    tracer, given = Tracer(f.__name__), []
    for name, a in zip(signature(f).parameters, arguments, strict=True):
        symbolic = isinstance(a, TensorType)
        given.append(Tensor(Symbol(tracer, tracer.graph.add(name, a))) if symbolic else a)
    for name, type, array in outside:
        if id(array) in tracer.known:
            raise TraceError(f"{name} and {tracer.known[id(array)].name} are the same tensor")
        tracer.known[id(array)] = tracer.graph.add(name, type)
    with installed(tracer, below=BASE):
        result = f(*given)
    tracer.alive = False
    tracer.graph.outputs = [tracer.node_of(result)]  # eagerflow takes pytrees: several, or none
    return tracer.graph

def slope(x, w):
    return grad(lambda x: sum(tanh(x * w)))(x)

print(graph_of(slope, f32((2, 3)), f32((3,))))  # gradient rules become nodes like all else

# %% [markdown]
# ## 5. Passes: functions from graph to graph
# A pass never changes a graph, it makes another. `rebuild` does what all passes have in common.
# %%
copy = lambda graph, n, inputs: graph.add(n.op.name, n.type, n.op, inputs, n.attrs)
def rebuild(graph, replace):
    """A copy of the graph, with ``replace(new, node, inputs)`` for each node."""
    new = Graph(graph.name)
    nodes = {n: new.add(n.name, n.type) for n in graph.inputs}
    for n in graph.nodes:
        nodes[n] = replace(new, n, tuple(nodes[i] for i in n.inputs))
    new.outputs = [nodes[n] for n in graph.outputs]
    return new

def prune(graph):
    """Drop what nothing needs; what writes state is needed."""
    needed = set(graph.outputs)
    for n in reversed(graph.nodes):
        if n in needed or n.op.effect == "writes":
            needed.update([n, *n.inputs])
    return rebuild(graph, lambda new, n, inputs: copy(new, n, inputs) if n in needed else None)

def fold(graph):
    """Compute what depends on constants only, now and with the same kernels."""
    def replace(new, n, inputs):
        if n.op.effect != "pure" or any(i.op is not ops["constant"] for i in inputs):
            return copy(new, n, inputs)
        array = np.asarray(kernels[n.op.name](*[i.attrs["value"] for i in inputs], **n.attrs))
        return new.add("constant", n.type, ops["constant"], (), {"value": array})
    return rebuild(graph, replace)

def cse(graph):
    """Compute once what is computed twice. Constants are compared bit by bit."""
    seen = {}
    def replace(new, n, inputs):
        bits = tuple(a.tobytes() for a in n.attrs.values()) if n.op.effect == "pure" else n
        key = (n.op, inputs, repr(n.type), bits)
        return seen[key] if key in seen else seen.setdefault(key, copy(new, n, inputs))
    return rebuild(graph, replace)

def wasteful(x):
    exp(x)
    return tanh(x * 2.0) + tanh(x * (tensor(1.0) + 1.0))

before = graph_of(wasteful, f32((3,)))
after = prune(cse(fold(before)))
print(before, after, sep="\n")
assert [n.op.name for n in after.nodes] == ["constant", "multiply", "tanh", "add"]

# %% [markdown]
# ## 6. Running a graph: generated Python
# A `Program` is a graph made ready to run: straight-line Python, with kernels and attributes looked
# up once and each array let go of at its last use. Where somebody wants to see the ops (a tape),
# the graph is *replayed* through `bind` instead.
# %%
class Program:
    def __init__(self, graph):
        listed = lambda nodes: ", ".join(n.name for n in nodes)
        lines, later = [f"return [{listed(graph.outputs)}]"], set(graph.outputs)
        for n in reversed(graph.nodes):
            dead = [i for i in dict.fromkeys([*n.inputs, n]) if i not in later]
            later.update(dead)
            lines += [f"del {listed(dead)}"] if dead else []
            lines.append(f"{n.name} = {n.name}_kernel({listed(n.inputs)})")
        lines.append(f"def program({listed(graph.inputs)}):")
        self.source = "\n    ".join(reversed(lines))
        names = {f"{n.name}_kernel": partial(kernels[n.op.name], **n.attrs) for n in graph.nodes}
        exec(self.source, names)
        self.run = names["program"]

def replay(graph, inputs):
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    for n in graph.nodes:
        tensors[n] = bind(n.op, *[tensors[i] for i in n.inputs], **n.attrs)
    return [tensors[n] for n in graph.outputs]

program, x = Program(after), tensor([0.1, 0.2, 0.3])
print(program.source)
assert program.run(x.numpy())[0].tobytes() == wasteful(x).numpy().tobytes()  # bit for bit

# %% [markdown]
# ## 7. `trace`: when may a graph be used again?
# If it does what the function would do now. That depends on arguments, and on what the function
# reads outside, which its code object tells: globals and cells, also those of functions that it
# calls. Of a tensor a trace relies on the *type*; one from outside is a further input of the graph,
# so its name may be bound anew. All else is a *guard*: it must be as it was. What might change
# unseen is refused (modules and classes aside). If no trace fits, a new one is made; in it, a size
# that was another before is a symbol. (eagerflow follows attributes and containers too. Numbers are
# inputs there, guarded only if Python asks for the value; a size that it asks for becomes static.)
# %%
def paths_of(f, taken):
    """What ``f`` and the functions that it calls read outside: by name, how to read it."""
    reads, users = {}, [f]
    for g in users:  # which grows
        codes = [g.__code__]
        for code in codes:
            codes += [c for c in code.co_consts if isinstance(c, CodeType)]
            reads |= {(i.argval, id(g.__globals__)): partial(g.__globals__.get, i.argval)
                      for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
        for name, cell in zip(g.__code__.co_freevars, g.__closure__ or (), strict=True):
            reads[name, id(cell)] = partial(getattr, cell, "cell_contents")
        for x in [getattr(read(), "traced", read()) for read in reads.values()]:
            if isinstance(x, FunctionType) and x not in (*users, *functions.values()):
                users.append(x)
    paths = {}
    for (name, _), read in reads.items():
        while name in taken or name in paths:
            name += "_"
        paths[name] = read
    return paths

NUMBERS = (bool, int, float, str)
BY_IDENTITY = [FunctionType, type(len), type, ModuleType, ContextVar, type(None)]
def pattern_of(name, x, before, symbols):
    """What a later call must have here: a tensor of a type, or of all else the same thing."""
    if isinstance(x, Tensor):
        shape, old = x.type.shape, before.shape if isinstance(before, TensorType) else ()
        merge = lambda p, q: p if same(p, q) else next(symbols)
        shape = tuple(map(merge, shape, old)) if len(shape) == len(old) else shape
        return TensorType(x.type.dtype, shape)
    if isinstance(x, (*NUMBERS, *BY_IDENTITY)):
        return x
    raise TraceError(f"{name} might change unseen: {x!r}")

def fits(x, pattern):
    if isinstance(x, Tensor) and isinstance(pattern, TensorType):
        shape, sizes = x._data.shape, pattern.shape
        return x._data.dtype == pattern.dtype and len(shape) == len(sizes) and all(
            isinstance(q, Dim) or p == q for p, q in zip(shape, sizes, strict=True))
    return x is pattern or (type(x) in NUMBERS and repr(x) == repr(pattern))

class TracedFunction:
    def __init__(self, f):
        self.traced, self.traces = f, []
    def __call__(self, *args):
        signature(self.traced).bind(*args)
        lowest = current.get()
        while not isinstance(lowest, (Eager, Tracer)):
            lowest = lowest.below
        if isinstance(lowest, Tracer):
            return self.traced(*args)  # becomes a part of the trace around it
        calls = ((t, [*args, *[read() for read in t.reads]]) for t in self.traces)
        fit = ((t, given) for t, given in calls if all(map(fits, given, t.patterns.values())))
        t, given = next(fit, None) or self.trace(args)
        tensors = [x for x in given if isinstance(x, Tensor)]
        if current.get() is not BASE:
            return replay(t.graph, tensors)[0]
        return Tensor(np.asarray(t.program.run(*[x.numpy() for x in tensors])[0]))
    def trace(self, args):
        given = dict(zip(signature(self.traced).parameters, args, strict=True))
        paths = paths_of(self.traced, given)
        given |= {name: read() for name, read in paths.items()}
        before = self.traces[-1].patterns if self.traces else {}
        symbols = map(Dim, chain("nmk", map("n{}".format, count())))
        patterns = {n: pattern_of(n, x, before.get(n), symbols) for n, x in given.items()}
        changed = [f"{n} is {getattr(x, 'type', x)}, was {before[n]}"
                   for n, x in given.items() if n in before and not fits(x, before[n])]
        outside = [(n, patterns[n], given[n]._data) for n in paths if isinstance(given[n], Tensor)]
        arguments = list(patterns.values())[:len(args)]
        graph = prune(cse(fold(graph_of(self.traced, *arguments, outside=outside))))
        self.traces.append(SimpleNamespace(
            patterns=patterns, reads=paths.values(), graph=graph, program=Program(graph),
            reason=", ".join(changed) or "first call"))
        return self.traces[-1], given.values()

trace = TracedFunction
BY_IDENTITY.append(TracedFunction)
factor, offset = 3.0, tensor([1.0, 2.0, 3.0])
@trace
def scaled(x):
    return x * factor + mean(offset)

for length in (3, 5, 9, 1, 0):
    assert scaled(tensor(np.ones(length))).type.shape == (length,)
factor, offset = 4.0, offset * 2.0
assert scaled(tensor([1.0])).numpy() == [8.0] and len(scaled.traces) == 3
print(scaled.traces[1].graph, *[t.reason for t in scaled.traces], sep="\n")

@trace
def careless(x):
    global leaked
    leaked = x * 2.0
    return x
careless(tensor(1.0))
try:
    leaked + 1.0
except LeakedTensorError as error:
    print(error)

# %% [markdown]
# ## 8. State: variables, effects in program order
# A `Variable` has a value that assignments replace. Reading and assigning are ops with an *effect*:
# they go through `bind` and become nodes like all others. Nodes are in program order, and no pass
# moves or merges effects, or drops a write. A read is a value of its own; the gradient by a
# variable is the sum over its reads (`wrt` in section 3).
# %%
def store(value, *, resource):
    if (value.dtype, value.shape) != (resource.array.dtype, resource.array.shape):
        raise ValueError(f"{resource} keeps its dtype and shape")
    resource.array = value
    return value

read = define("read", lambda *, resource: resource.array, lambda *, resource: resource.type,
              effect="reads")
assign = define("assign", store, lambda value, *, resource: resource.type, None, effect="writes")

class Variable(AbstractArray):
    def __init__(self, value, name):
        self.array, self.name = tensor(value).numpy(), name
    value = property(lambda self: read(resource=self))
    type = property(lambda self: TensorType(self.array.dtype, self.array.shape))
    assign = lambda self, value: assign(value, resource=self)
    __repr__ = lambda self: f"@{self.name}"

BY_IDENTITY.append(Variable)
total = Variable(0.0, "total")
@trace
def count_up(x):
    before = total.value
    total.assign(total + x)
    total.assign(total + x)
    return before * 100.0 + total

assert [float(count_up(tensor(x))) for x in (2.0, 3.0)] == [4.0, 410.0]
print(*[t.graph for t in count_up.traces])

# %% [markdown]
# ## 9. All together: training a network, eagerly and traced
# Two spirals, two hidden layers, gradient descent. In the trace the tape is gone: the graph holds
# the ops of the step, of its gradient and of the update. It computes the same bits, faster.
# %%
def new_step(rate=0.3):
    shapes, rng = [(2, 32), (32,), (32, 32), (32,), (32, 1)], np.random.default_rng(0)
    w1, b1, w2, b2, w3 = [Variable(rng.normal(0, s[0] ** -0.5, s), f"v{s}") for s in shapes]
    def loss(x, y):
        error = tanh(tanh(tanh(x @ w1 + b1) @ w2 + b2) @ w3) - y
        return mean(error * error)
    def step(x, y):
        value, gradients = value_and_grad(loss, wrt=(w1, b1, w2, b2, w3))(x, y)
        for v, g in zip((w1, b1, w2, b2, w3), gradients, strict=True):
            v.assign(v - g * rate)
        return value
    return step

def train(step, steps=1000):
    started = time.process_time()
    losses = [float(step(x, y)) for _ in range(steps)]
    return losses, 1e6 * (time.process_time() - started) / steps

rng = np.random.default_rng(0)
angle, side = np.sqrt(rng.random((200, 1))) * 7.0, rng.choice([-1.0, 1.0], (200, 1))
x, y = tensor(np.hstack([np.cos(angle), np.sin(angle)]) * side * angle / 7.0), tensor(side)
(eager, slow), (traced, fast) = train(new_step()), train(trace(new_step()))
print(f"loss {eager[0]:.3f} to {eager[-1]:.3f}; {slow:.0f} us a step, traced {fast:.0f} us")
assert eager == traced and eager[-1] < 0.05 and fast < slow

# %% [markdown]
# ## 10. Where to find it in eagerflow
# | section | folder | what is more there |
# |---|---|---|
# | 1 | `core/op.py`, `core/tensor.py`, `ops/` | devices, dtypes, hundreds of functions |
# | 2 | `core/interpreter.py`, `core/execute.py` | a fast path if nobody is installed; monitors |
# | 3 | `autodiff/` | forward mode; records keep what rules read; lost gradients are errors |
# | 4 | `tracing/tracer.py`, `graph/ir.py` | a parser, control edges, the lines of the user, draws |
# | 5 | `graph/passes/` | more passes; each reports what it changed |
# | 6 | `runtime/` | arrays used again, errors with the line, events for instruments |
# | 7 | `function/`, `dims/` | what is in brackets above; reports of side effects; a bounded cache |
# | 8 | `ops/state/`, `resources/` | atomic assignments, generators of random numbers |
