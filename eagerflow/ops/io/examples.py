"""TensorFlow's examples (``tf.train.Example``): parsing and encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import each_row
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim, unknown
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.io.parsing import default_of
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.rules.type_rules import BYTE_STRINGS, check_kind
from eagerflow.ops.state.queue_elements import as_spec
from eagerflow.types import BYTES, DTYPES, DType, TensorSpec, TensorType

_KINDS: Final = (BYTES, DTYPES["float32"], DTYPES["int64"])


@of_family(MOVING)
def _parse_type(
    x: TensorType, *, names: Sequence[str], dtypes: Sequence[DType],
    shapes: Sequence[Sequence[int | None]], defaults: Sequence[Any],
) -> tuple[TensorType, ...]:  # fmt: skip
    check_kind(x, BYTE_STRINGS)
    types = []
    for name, dtype, shape in zip(names, dtypes, shapes, strict=True):
        why = f"the number of values of {name!r} depends on the example"
        sizes: Any = [unknown("k", why) if size is None else size for size in shape]
        types.append(x.like(shape=(*x.shape, *sizes), dtype=dtype))
    return tuple(types)


_parse_example = define(
    "parse_example", infer=_parse_type, vjp=(None,), outputs=None, batch=each_row
)


def parse_example(
    serialized: TensorLike,
    /,
    features: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """Parse TensorFlow's ``tf.train.Example``: named lists of numbers or of byte strings.

    Args:
        serialized: bytes of any shape, one example per element.
        features: the features to read, as types by name: ``"f32[3]"``, ``"i64[]"``, ``"bytes[]"``.
            A name in place of a size, ``"i64[n]"``, allows lists of any length; for several
            examples, shorter lists are padded with zeros or empty byte strings.
        defaults: by name a number, or bytes, for examples that lack the feature. Without a default
            a missing feature is an error, or an empty list if any length is allowed.

    Returns:
        A dict of tensors by name, each with the axes of ``serialized`` before its own.

    Raises:
        RecordError: an element is no example, lacks a feature, or has another kind or number of
            values; the error names the element.
        DTypeError: examples do not support a dtype.
        ShapeError: a feature has two sizes that are not fixed.
        TensorValueError: there are no features, or a default is for none of them.

    >>> record = ef.io.encode_example({"label": 3, "words": [b"to", b"be"]})
    >>> features = ef.io.parse_example(record, {"label": "i64[]", "words": "bytes[n]"})
    >>> features["label"], features["words"]
    (Tensor(3, i64[]@cpu:0), Tensor([b'to', b'be'], bytes[2]@cpu:0))
    """
    x = tensor_of(serialized)
    given = dict(defaults or {})
    kinds = {name: _feature_type(name, kind, x) for name, kind in features.items()}
    strange = given.keys() - kinds.keys()
    if not kinds or strange:
        raise TensorValueError(
            "parse_example: defaults are for features" if strange else "parse_example: no features",
            given=", ".join(sorted(strange)) or None,
            expected=", ".join(kinds) or None,
        )
    tensors = bind(
        _parse_example,
        x,
        names=tuple(kinds),
        dtypes=tuple([kind.dtype for kind in kinds.values()]),
        shapes=tuple([_sizes(kind) for kind in kinds.values()]),
        defaults=tuple([default_of(kind.dtype, given.get(n)) for n, kind in kinds.items()]),
    )
    return dict(zip(kinds, tensors, strict=True))


def _feature_type(name: str, kind: Any, x: Tensor) -> TensorSpec:
    spec = as_spec(f"parse_example: {name!r}", kind, x.device)
    if spec.dtype not in _KINDS:
        raise DTypeError(
            f"parse_example: {name!r} of dtype {spec.dtype.short}",
            expected=", ".join(dtype.short for dtype in _KINDS),
            hint="convert it afterwards: .astype(...)",
        )
    if sum(isinstance(size, Dim) for size in spec.shape) > 1:
        raise ShapeError(
            f"parse_example: {name!r}: examples keep no shapes, so at most one size may vary",
            given=str(spec),
        )
    return spec


def _sizes(kind: TensorSpec) -> tuple[int | None, ...]:
    return tuple([None if isinstance(size, Dim) else size for size in kind.shape])


def _encode_type(*inputs: TensorType, names: Sequence[str]) -> TensorType:
    for kind in inputs:
        check_kind(kind, frozenset(d.category for d in _KINDS))
    return inputs[0].like(shape=(), dtype=BYTES)


_encode_example = define(
    "encode_example",
    infer=_encode_type,
    nondifferentiable=True,
    precision="exact",
    takes_bytes=True,
    batch=each_row,
)


def encode_example(features: Mapping[str, TensorLike], /) -> Tensor:
    """Encode features as TensorFlow's ``tf.train.Example``.

    Args:
        features: tensors by name. Examples keep no shapes: elements are stored in row-major order.
            Floating dtypes become float32, integers and bool int64.

    Raises:
        DTypeError: a feature is complex.
        TensorValueError: there are no features.

    >>> ef.io.length(ef.io.encode_example({"x": [1.0, 2.0]}))
    Tensor(21, i64[]@cpu:0)
    """
    if not features:
        raise TensorValueError("encode_example: there are no features")
    names = sorted(features)
    inputs = [_encodable(name, tensor_of(features[name])) for name in names]
    return bind(_encode_example, *inputs, names=tuple(names))


def _encodable(name: str, x: Tensor) -> Tensor:
    dtype = x.dtype
    if dtype is BYTES:
        return x
    if dtype.is_complex:
        raise DTypeError(
            f"encode_example: {name!r}: examples have no complex numbers", given=str(x.type)
        )
    return cast(x, DTYPES["float32" if dtype.is_floating else "int64"])
