"""Generated code equals eager code: values, kinds, devices, order, memory, speed."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DeviceError, GraphError, KernelError
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, replay
from tests.runtime.graphs import Traced, chain, same

f32 = "float32"


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


# --- values -----------------------------------------------------------------------------------


def test_values_and_lanes() -> None:
    f = Traced(lambda x, k: (ef.exp(x).sum() * k, k + 1, x.astype(ef.int8)), (f32, ("n",)), 2.5)
    x = ef.tensor([1.0, 2.0])
    z, k, y = f(x, 3.5)
    assert same(z, ef.exp(x).sum() * 3.5)
    assert k == 4.5
    assert same(y, x.astype(ef.int8))
    assert [lane and lane.dtype.name for lane in f.executable.lanes] == [f32, None, "int8"]


def test_results_without_axes_are_arrays() -> None:
    program = Traced(lambda x: (x.sum(), x * x, ef.negative(x)), (f32, ())).executable
    assert [type(x) for x in program(np.array(2.0, np.float32))] == [np.ndarray] * 3


def test_several_outputs() -> None:
    def f(x: Any) -> Any:
        a, b = ef.split(x, 2)
        (c,) = ef.split(a, 1)
        (d,) = ef.nonzero(b)
        sign, size = ef.linalg.slogdet(ef.diag(c))
        return a, b, c, d, sign, size

    x = ef.tensor([1.0, -2.0, 3.0, 0.0])
    for got, want in zip(Traced(f, (f32, (4,)))(x), f(x), strict=True):
        assert same(got, want)


def test_outputs_may_be_inputs_constants_and_repeated() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[2], %k: int) {
          %c = constant() {value=tensor(f32[2], (1, 2))} : f32[2]
          %two = constant() {value=2} : int
          return %x, %c, %x, %two, %k }"""
    )
    x = ones(2)
    a, c, b, two, k = Executable(graph)(x, 7)
    assert a is x
    assert b is x
    assert c.tolist() == [1.0, 2.0]
    assert (two, k) == (2, 7)
    assert Executable(Graph.parse("graph f() { return }"))() == ()


def test_low_precision_is_computed_in_float32() -> None:
    x = ef.tensor([1.0, 1.5, 3.25], dtype=ef.bfloat16)
    f = Traced(lambda x: ef.exp(x) * x, ("bfloat16", ("n",)))
    assert same(f(x)[0], ef.exp(x) * x)


def test_devices() -> None:
    with ef.config(cpu_devices=2):
        graph = Graph.parse(
            """graph f(%x: f32[n]@cpu:0) {
              %y = transfer(%x) {device=device("cpu:1"), source=device("cpu:0")} : f32[n]@cpu:1
              %c = constant() {value=tensor(f32[], (3))} : f32[]@cpu:1
              %z = multiply(%y, %c) : f32[n]@cpu:1
              %w = zeros() {shape=(2,), dtype=f32, device=device("cpu:1")} : f32[2]@cpu:1
              return %z, %w }"""
        )
        program = Executable(graph)
        z, w = program.apply([ef.ones(2)])
        assert z.device.name == w.device.name == "cpu:1"
        assert z.tolist() == [3.0, 3.0]
        with pytest.raises(DeviceError, match="multiply: operands sit on different devices"):
            Executable(
                Graph.parse(
                    "graph f(%x: f32[2]@cpu:0, %y: f32[2]@cpu:1) "
                    "{ %z = multiply(%x, %y) : f32[2]@cpu:0 return %z }"
                )
            )


def test_null_devices_know_types() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n]@null:0) {
          %y = exp(%x) : f32[n]@null:0
          %s = sum(%y) {axis=(0,), keepdims=False} : f32[]@null:0
          return %y, %s }"""
    )
    y, s = Executable(graph).apply([ef.ones(3, device="null:0")])
    assert (str(y.type), str(s.type)) == ("f32[3]@null:0", "f32[]@null:0")


def test_calls() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n, m]) {
          %a.0, %a.1, %a.2 = call(%x) {body=graph g(%y: f32[m, k]) {
            %r = reshape(%y) {shape=(m*k,)} : f32[m*k]
            %b.0, %b.1 = call(%r) {body=graph h(%z: f32[n]) {
              %q = reshape(%z) {shape=(1, n)} : f32[1,n] return %q, %z }} : f32[1,k*m], f32[k*m]
            return %b.0, %b.1, %y }} : f32[1,m*n], f32[n*m], f32[n,m]
          %e = exp(%a.0) : f32[1,m*n]
          return %e, %a.2 }"""
    )
    x = ef.arange(6, dtype=ef.float32).reshape((2, 3))
    e, again = Executable(graph).apply([x])
    assert same(e, ef.exp(x.reshape((1, 6))))
    assert again._data is x._data
    assert same(replay(graph, [x])[0], e)


def test_sizes_that_depend_on_data() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n]) {
          %i = nonzero(%x) : i64[k]
          %r = reshape(%i) {shape=(k, 1)} : i64[k,1]
          %c = call(%r) {body=graph g(%y: i64[n,1]) {
            %s = python_size() {size=2*n+k} : int return %s }} : int
          %z = zeros() {shape=(n-k,), dtype=f32, device=device("cpu:0")} : f32[n-k]
          return %r, %c, %z }"""
    )
    program = Executable(graph)
    for values in ([0.0, 1.0, 2.0], [0.0], [], [3.0]):
        x = ef.tensor(values, dtype=ef.float32)
        k = sum(v != 0 for v in values)
        for r, c, z in (program.apply([x]), replay(graph, [x])):
            assert (r.shape, c, z.shape) == ((k, 1), 3 * k, (len(values) - k,))


def test_a_size_is_taken_once() -> None:
    f = Traced(lambda x: ef.exp(x)[: x.shape[0] // 2].reshape((-1, 1)), (f32, ("n",)))
    assert f.executable.text.count(".shape[") == 1


def test_parts_of_indices_may_be_sizes() -> None:
    f = Traced(lambda x: x[x.shape[0] // 2 :, None, : x.shape[0] - 1], (f32, ("n", "m")))
    assert not f.static
    for shape in ((3, 4), (1, 1), (2, 0), (4, 1)):
        x = ef.arange(shape[0] * shape[1], dtype=ef.float32).reshape(shape)
        assert same(f(x)[0], x[shape[0] // 2 :, None, : shape[0] - 1])


def test_a_long_graph() -> None:
    (y,) = Executable(chain(1000)).apply([ef.ones(3), ef.zeros(3)])
    assert y.tolist() == [1000] * 3


def test_values_that_are_read_far_below() -> None:
    def f(x: Any, k: Any) -> Any:
        n = x.shape[0]
        a, b = ef.split(ef.concat([x, x]), [2])
        c = a + k
        d = ef.random.uniform((n,), generator=generator)
        for _ in range(5):
            c = c * k + b.sum()
        e = ef.random.normal((n, 2), generator=generator)
        return c, a, d, e, k * 2, ef.reshape(b, (1, 2 * n - 2))

    generator = ef.random.Generator(3)
    traced = Traced(f, (f32, ("n",)), 2)
    got = traced(ef.tensor([1.0, 2.0, 3.0]), 3)
    generator = ef.random.Generator(3)
    for a, b in zip(got, f(ef.tensor([1.0, 2.0, 3.0]), 3), strict=True):
        assert same(a, b)


# --- threads, kernels, warnings, time -----------------------------------------------------------


def test_many_threads() -> None:
    program = Executable(chain(50, "multiply"))
    wrong: list[float] = []

    def work(k: float) -> None:
        x = np.full(100, k, np.float32)
        for _ in range(100):
            (y,) = program(np.full(100, 1.01, np.float32), x)
            if not np.array_equal(y, want[k]):
                wrong.append(k)

    want = {
        k: program(np.full(100, 1.01, np.float32), np.full(100, k, np.float32))[0]
        for k in (1.0, 2.0, 3.0)
    }
    threads = [threading.Thread(target=work, args=(k,)) for k in want]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_kernel_that_is_registered_anew_counts_from_the_next_call(add_kernel: Any) -> None:
    program = Executable(Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }"))
    assert program(ones(1))[0][0] == pytest.approx(np.exp(1), rel=2e-7)
    add_kernel("exp", lambda xp, x: x + 41)
    assert program(ones(1))[0][0] == 42


def test_a_kernel_that_fails_in_its_own_way(add_kernel: Any) -> None:
    def broken(xp: Any, x: Any) -> Any:
        raise RuntimeError("no")

    program = Executable(Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }"))
    add_kernel("exp", broken)
    with pytest.raises(KernelError, match="exp: the kernel raised RuntimeError") as caught:
        program(ones(1))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_no_floating_point_warnings() -> None:
    graph = Graph.parse(
        "graph f(%x: f32[n]) { %y = log(%x) : f32[n] %z = exp(%x) : f32[n] return %y, %z }"
    )
    program = Executable(graph)
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, z = program(np.array([0.0, 1000.0], np.float32))
        replay(graph, [ef.tensor([0.0, 1000.0])])
    assert y[0] == -np.inf
    assert z[1] == np.inf
    assert np.geterr() == before


def test_what_does_not_run_is_refused() -> None:
    for text, words in (
        (
            "graph f(%x: f32[]) { %y = assign(%x) {resource=@w} : f32[] return %y }",
            "&y refers to an object that was not given",
        ),
        (
            "graph f() { %y = constant() {value=tensor(f32[99], $a)} : f32[99] return %y }",
            "a constant of the graph was not given",
        ),
        ("graph f(%k: int) { %y = exp(%k) : f32[] return %y }", "exp takes tensors"),
        (
            "graph f(%x: f32[2*n]) { %y = zeros() {shape=(n,), dtype=f32, "
            'device=device("cpu:0")} : f32[n] return %y }',
            "the size n follows from no input",
        ),
    ):
        graph = Graph.parse(text)
        with pytest.raises(GraphError, match=words):
            Executable(graph)


def test_other_kinds_of_powers_are_refused() -> None:
    graph = Graph.parse("graph f(%k: int) { %p = python_pow(%k, %k) : int return %p }")
    program = Executable(graph)
    assert program(3) == (27,)
    with pytest.raises(GraphError, match=r"-1 \*\* -1 is a float"):
        program(-1)
