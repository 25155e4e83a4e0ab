"""The usual remedies for a NaN or an infinity, which ops state in their records."""

from typing import Final

LOG: Final = (
    "keep the operand positive, ef.log(ef.clip(x, min=1e-12)), or choose before: "
    "ef.log(ef.where(x > 0, x, 1.0)); in float16 the least is 1e-4; instead of the log of a "
    "softmax or a sigmoid, log_softmax, cross_entropy and binary_cross_entropy_with_logits take "
    "its operand"
)
DIVIDE: Final = "choose the denominator before dividing: x / ef.where(y != 0, y, 1.0)"
EXP: Final = (
    "subtract the maximum of each row first, ef.exp(x - x.max(axis=-1, keepdims=True)); log of "
    "a sum of exponentials is ef.logsumexp"
)
ROOT: Final = (
    "the root of a negative number: ef.sqrt(ef.clip(x, min=0.0)), or ef.sqrt(ef.where(x > 0, x, "
    "1.0))"
)
CAST: Final = (
    "float16 ends at 65,504: scale the values down before, a loss for its gradients as well; "
    "bfloat16 has the range of float32"
)
POWER: Final = "choose the base before: ef.where(x > 0, x, 1.0) ** y"
SQUARES: Final = (
    "in training, the rate is too high: a smaller lr=, or "
    "ef.optim.clip_by_global_norm(grads, 1.0); "
    "else scale the operands down, or compute in float64: x.astype(ef.float64)"
)

# where the gradient is not finite
SLOPE_OF_ROOT: Final = (
    "at 0 the slope of a root is infinite: ef.sqrt(x + 1e-12) (in float16 1e-4), or "
    "ef.where(x > 0, ef.sqrt(ef.where(x > 0, x, 1.0)), 0.0)"
)
SLOPE_AT_END: Final = (
    "at the end of its domain the slope is infinite: ef.clip(x, -1 + 1e-6, 1 - 1e-6) first"
)
