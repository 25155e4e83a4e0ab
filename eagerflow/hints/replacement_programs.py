"""Names in NumPy, PyTorch, JAX and TensorFlow, and programs that compute the same here."""

from __future__ import annotations

from typing import Final

from eagerflow.hints.function_names import by_name

_HOST: Final = "NumPy has it: {}; eagerflow takes and gives its arrays"
_OWN_OP: Final = """\
an op with a kernel and a derivative of its own (docs/extending.md):
    from eagerflow.extending import INEXACT, bind, define, elementwise, portable
    @portable('cube')
    def kernel(xp, x, *, k):
        return k * x * x * x
    cube = define('cube', infer=elementwise(INEXACT), saved='inputs',
                  vjp=(lambda g, out, x, *, k: g * 3 * k * x * x,))
    y = bind(cube, x, k=2.0)
    # a result of another shape: infer=lambda kind, *, axis: kind.like(shape=...)
    # saved: the values that the rules read: 'none', 'inputs', 'outputs' or 'all'
    # one rule for all inputs at once, which gives a tuple: vjp=joint(rule)
  without a kernel, ef.custom_vjp gives a function another derivative; Python code as it is: \
ef.py_call(f, x.type, x)"""
_SETTING: Final = "dtypes and devices are arguments: ef.zeros(shape, dtype=..., device=...)"

#: of the package: replacements by name
PROGRAMS: Final = {
    **by_name(
        {
            # NumPy
            "ef.stack([f(x) for x in ef.unstack(a, axis=axis)]), or ef.vmap(f, in_axes=axis)(a)":
                "apply_along_axis apply_over_axes",
            "ef.vmap(f)(xs) applies f to all rows at once": "frompyfunc vectorize",
            "ef.argsort(x), ef.sort(x); ef.topk(x, k) gives the largest": "argpartition partition",
            "ef.array_equal(x, y)": "array_equiv",
            "str(x), repr(x)": "array2string array_repr array_str",
            "ef.asarray(x)": "asanyarray ascontiguousarray asfortranarray frombuffer",
            "ef.asarray(x); a matrix is a tensor with two axes": "asmatrix matrix bmat",
            "ef.concat of rows that are ef.concat of blocks": "block",
            "ef.broadcast_arrays(x, y), ef.broadcast_to(x, shape)": "broadcast",
            "x.ndim": "rank",
            "ef.select(conditions, choices), ef.take_along_axis(choices, indices)":
                "choose piecewise",
            "x.dtype is the dtype; dtypes are ef.float32, ef.int64, …": "dtype dtypes",
            "ef.isdtype(dtype, kind), with kinds such as 'real floating'":
                "issubdtype iscomplexobj isrealobj generic floating inexact integer number "
                "complexfloating signedinteger unsignedinteger",
            "x[i, i] = v for i = ef.arange(n)": "fill_diagonal diag_indices diag_indices_from",
            "ef.abs(x)": "fabs",
            "ef.trunc(x)": "fix",
            "ef.exp2, ef.log2 and ef.floor": "frexp ldexp",
            "ef.trunc(x), x - ef.trunc(x)": "modf",
            "ef.meshgrid(*axes, indexing='ij')": "indices mgrid ogrid ix_",
            "ef.imag(x) != 0": "iscomplex",
            "ef.imag(x) == 0": "isreal",
            "x == -ef.inf": "isneginf",
            "x == ef.inf": "isposinf",
            "x[ef.isin(x, y)] of unique values: ef.unique_values(x)":
                "intersect1d setdiff1d setxor1d union1d",
            "ef.argsort(x, stable=True) by the last key first": "lexsort",
            "ef.logaddexp(x * ln2, y * ln2) / ln2 with ln2 = 0.6931471805599453": "logaddexp2",
            "ef.argmax(ef.where(ef.isnan(x), -ef.inf, x))": "nanargmax",
            "ef.argmin(ef.where(ef.isnan(x), ef.inf, x))": "nanargmin",
            "ef.devices() lists devices; ops run on one in `with ef.device('gpu:0'):`":
                "accelerator cuda mps xpu",
            "isinstance(x, ef.Tensor)": "is_tensor isscalar",
            "ef.memory('gpu:0').in_use; a peak is not recorded":
                "max_memory_allocated memory_allocated memory_stats memory_summary",
            "ef.Tensor is the class; ef.asarray(x) makes one": "ndarray recarray",
            "ef.round(x)": "rint",
            "ef.moveaxis(x, source, destination)": "movedim rollaxis",
            "ef.vstack(arrays)": "row_stack",
            "x[indices] = values": "place put putmask copyto",
            "ef.concat([x, y]), ef.column_stack([x, y])": "c_ r_",
            "x[1:, ::2]; np.s_ makes an index, too": "index_exp s_",
            "ef.where(mask, x, fill) chooses; ef.nanmean and the like leave NaN out": "ma",
            "ef.tensor(list(values))": "fromiter fromstring",
            "indices[0] * shape[1] + indices[1]": "ravel_multi_index",
            "ef.cumsum and the functions of ef.linalg, or NumPy's on x.numpy()":
                "poly poly1d polyadd polyder polydiv polyfit polyint polymul polysub polyval roots "
                "polynomial vander",
            "ef.arange(n)[:, None] >= ef.arange(m)": "tri",
            "ef.nonzero(ef.tril(ef.ones((n, m))))": "tril_indices tril_indices_from",
            "ef.nonzero(ef.triu(ef.ones((n, m))))": "triu_indices triu_indices_from",
            "ef.result_type(x, y)": "promote_types common_type min_scalar_type",
            "ef.diff(x)": "ediff1d",
            "ef.histogram(x, bins)": "histogram2d histogramdd histogram_bin_edges",
            "ef.matmul(x[..., None, :], y)[..., 0, :], x @ y": "vecmat matvec mv",
            _HOST.format("np.hanning(n), …"): "bartlett bartlett_window blackman "
                "blackman_window hamming hamming_window hann_window hanning kaiser kaiser_window",
            _HOST.format("np.load, np.save, np.savez"):
                "fromfile fromregex genfromtxt loadtxt memmap packbits savetxt savez "
                "savez_compressed unpackbits",
            "ef.checkpoint.save(path, tree), ef.checkpoint.load(path)": "load save",
            "print(x); NumPy's np.set_printoptions is minded": "printoptions set_printoptions",
            "ef.config(check_nan=True) reports the op that makes one":
                "errstate seterr geterr",
            "for i in range(len(x)): x[i]": "ndenumerate ndindex nditer",
            "ef.complex64": "csingle",
            "ef.complex128": "cdouble",
            "ef.int64": "intp",
            "ef.uint64": "uintp uint ulong",
            "ef.int16": "short",
            "ef.uint16": "ushort",
            "ef.uint8": "ubyte",
            "ef.int8": "byte",
            "ef.float32": "single",
            "ef.float64": "longdouble float128",
            "ef.uint32": "uintc",
            "the loop is written out: if loss < best: best, state = loss, "
            "{name: v.numpy().copy() for name, v in net.state.items()}; and after it "
            "net.load_state(state)": "EarlyStopping callbacks",
            # SciPy
            "ef.cumsum((y[1:] + y[:-1]) / 2 * ef.diff(x))": "cumtrapz cumulative_trapezoid",
            "a loop, or ef.scan, over steps such as y = y + h * f(y + h / 2 * f(y))":
                "integrate odeint solve_ivp",
            # PyTorch
            "beta * x + alpha * (a @ b)": "addmm addmv baddbmm",
            "ef.searchsorted(boundaries, x)": "bucketize",
            "ef.linalg.norm(x[:, None] - y[None], axis=-1)": "cdist dist",
            "ef.linalg.vecdot(x, y) / (ef.linalg.norm(x) * ef.linalg.norm(y))":
                "cosine_similarity",
            "x.flatten(start_axis)": "flatten",
            "x @ y": "spmm",
            "real + 1j * imag": "complex",
            "r * ef.exp(1j * angle)": "polar",
            "x[..., 0] + 1j * x[..., 1]": "view_as_complex",
            "ef.stack([x.real, x.imag], -1)": "view_as_real",
            "ef.stack(ef.meshgrid(x, y, indexing='ij'), -1).reshape((-1, 2))": "cartesian_prod",
            "i, j = ef.nonzero(ef.triu(ef.ones((n, n)), 1)); x[i], x[j]": "combinations",
            "ef.tensor(value)": "scalar_tensor",
            "leave it out: how elements lie in memory does not matter":
                "channels_last channels_last_3d contiguous_format memory_format preserve_format",
            "leave it out: products of float32 numbers are made in float32":
                "get_float32_matmul_precision set_float32_matmul_precision set_flush_denormal",
            "np.testing.assert_allclose(x, y) takes tensors":
                "assert_allclose assert_close testing",
            "ef.spawn(f) runs a function beside the program; ef.cluster has processes":
                "fork multiprocessing futures",
            "ef.tensor(data, dtype=ef.float16)": "HalfTensor",
            "ef.tensor(data, dtype=ef.bfloat16)": "BFloat16Tensor",
            "ef.tensor(data, dtype=ef.int16)": "ShortTensor",
            "ef.tensor(data, dtype=ef.int8)": "CharTensor",
            "ef.tensor(data, dtype=ef.uint8)": "ByteTensor",
            "ef.zeros(()).device": "get_default_device",
            "@ef.trace makes a graph of a function, and compiles it": "compiler",
            "x >= y": "ge",
            "x > y": "gt",
            "x <= y": "le",
            "x < y": "lt",
            "x != y": "ne",
            "x == y": "eq",
            "x * y": "mul",
            "x - y": "sub",
            "x / y": "div",
            "x[start:stop]": "narrow",
            "ef.linalg.slogdet(x)": "logdet",
            "ef.unique_counts(x), and the value that occurs most": "mode",
            "ef.sort(x)[k - 1]": "kthvalue",
            "ef.linalg.matmul in turn; ef.einsum chooses the order": "chain_matmul multi_dot",
            "x.std(...), x.mean(...)": "std_mean",
            "x.var(...), x.mean(...)": "var_mean",
            "ef.linalg.eigh(x)": "symeig",
            "x.T": "t",
            "ef.unstack(x)": "unbind",
            "ef.array_split(x, sections, axis)": "tensor_split",
            "ef.fft.rfft of windows": "stft istft",
            "x[indices] = v, ef.index_update, ef.scatter_add": "scatter scatter_nd slice_scatter",
            _SETTING: "get_default_dtype set_default_dtype set_default_tensor_type",
            "ef.tensor(data, dtype=ef.float32)": "FloatTensor",
            "ef.tensor(data, dtype=ef.float64)": "DoubleTensor",
            "ef.tensor(data, dtype=ef.int32)": "IntTensor",
            "ef.tensor(data, dtype=ef.int64)": "LongTensor",
            "ef.tensor(data, dtype=ef.bool)": "BoolTensor",
            "a tuple: x.shape": "Size TensorShape",
            "ef.grad, ef.GradientTape and the like are in ef itself; ef.custom_vjp makes a "
            "function with a derivative of its own, as torch.autograd.Function, "
            "ef.check_grads checks it, and ef.config(check_nan=True) finds NaN": "autograd",
        "the type of an own op's result is made from that of an operand: kind.like(shape=..., "
            "dtype=...)": "TensorSpec TensorType",
            "ef.grad, ef.vmap, ef.jvp and the like are in ef itself": "func",
            "ef.devices() lists them, ef.device chooses one": "backends",
            "ef.cluster": "distributed distribute",
            "ef.profile()": "profiler",
            "ef.data; ef.remat(f)(x) recomputes values, as checkpoint(f, x) does": "utils",
            _OWN_OP:
                "bind custom_op define elementwise kernel library op register_kernel register_op",
            # JAX
            "ef.vmap on one device; ef.cluster for several": "pmap shard_map",
            "ef itself has these functions: ef.scan, ef.cond, ef.while_loop, ef.map": "lax",
            "ef itself has NumPy's functions": "numpy",
            "ef.extending.tree, whose functions are map, flatten, unflatten":
                "nest tree tree_map tree_util",
            "f.graph(x) of a traced function f": "make_jaxpr",
            "x.item() and all that looks at values waits by itself":
                "block_until_ready",
            "ef.print, ef.show": "debug",
            "ef.vjp": "linear_transpose",
            "x.type, which ef.eval_shape takes and gives": "ShapeDtypeStruct TensorSpec",
            "ef.name_scope(name)": "named_call named_scope",
            # TensorFlow
            "ef.data, ef.optim, ef.checkpoint": "train",
            "ef.nn": "keras",
            "subclass ef.nn.Module": "Module",
            "ef.full(shape, value)": "fill",
            "ef.arange(n)": "range",
            "functions of mathematics are in ef itself": "math",
            "ef.nn.functional.interpolate; ef.data.Dataset reads pictures": "image",
            "ef.map(f, xs), ef.vmap(f)(xs)": "map_fn",
            "ef.switch(index, branches, x)": "case",
            "ef.any(x)": "reduce_any",
            "ef.all(x)": "reduce_all",
            "ef.prod(x)": "reduce_prod",
            "grads, norm = ef.optim.clip_by_global_norm(grads, max_norm)":
                "clip_by_norm clip_by_global_norm clip_grad_norm_",
            "tensors of several lengths: ef.data.Dataset.padded_batch": "RaggedTensor ragged",
            "ef.IndexedSlices, which gradients of embeddings are": "SparseTensor sparse",
            "tensors of dtype ef.bytes": "strings",
        }
    )
}  # fmt: skip
