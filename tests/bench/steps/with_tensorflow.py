"""Training steps by TensorFlow, each wholly a `tf.function`, with XLA or without."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.bench.steps.data import BETAS, EPS, RATE, Task, cnn_task, mlp_task

tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


def _step(logits: Callable[[Any, Any], Any], task: Task, xla: bool) -> Callable[[], Any]:
    weights = [tf.Variable(w) for w in task.weights]
    means, squares = ([tf.Variable(tf.zeros_like(w)) for w in weights] for _ in range(2))
    count = tf.Variable(0.0)

    @tf.function(jit_compile=xla)
    def run(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits(weights, x))
            loss = tf.reduce_mean(each)
        gradients = tape.gradient(loss, weights)
        count.assign_add(1.0)
        first, second = 1 - BETAS[0] ** count, 1 - BETAS[1] ** count
        for w, g, m, v in zip(weights, gradients, means, squares, strict=True):
            m.assign(BETAS[0] * m + (1 - BETAS[0]) * g)
            v.assign(BETAS[1] * v + (1 - BETAS[1]) * g * g)
            w.assign_sub(RATE * (m / first) / (tf.sqrt(v / second) + EPS))
        return loss

    iterations = task.iterations(tf.constant)
    return lambda: run(*next(iterations)).numpy()


def mlp(batch: int, hidden: int, xla: bool) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10."""

    def logits(weights: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        x = tf.nn.relu(tf.matmul(x, w1, transpose_b=True) + b1)
        x = tf.nn.relu(tf.matmul(x, w2, transpose_b=True) + b2)
        return tf.matmul(x, w3, transpose_b=True) + b3

    return _step(logits, mlp_task(batch, hidden), xla)


def cnn(xla: bool) -> Callable[[], Any]:
    """Steps of the small convolution net; on a CPU its convolutions take channels last."""

    def logits(weights: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        x = tf.transpose(x, (0, 2, 3, 1))
        for w, b in ((w1, b1), (w2, b2)):
            x = tf.nn.relu(tf.nn.conv2d(x, tf.transpose(w, (2, 3, 1, 0)), 1, "SAME") + b)
        x = tf.transpose(tf.nn.max_pool2d(x, 2, 2, "VALID"), (0, 3, 1, 2))
        return tf.matmul(tf.reshape(x, (x.shape[0], -1)), w3, transpose_b=True) + b3

    return _step(logits, cnn_task(), xla)
