"""opt_einsum accepts tensors, with gradients and in traced functions."""

from __future__ import annotations

import numpy as np
import opt_einsum

import eagerflow as ef

_FORM = "ij,jk,kl->il"


def test_it_contracts_tensors() -> None:
    arrays = list(np.random.default_rng(0).normal(size=(3, 4, 4)))
    want = np.einsum(_FORM, *arrays)
    a, b, c = map(ef.tensor, arrays)

    def contracted(x: ef.Tensor) -> ef.Tensor:
        result = opt_einsum.contract(_FORM, x, b, c)
        assert isinstance(result, ef.Tensor)
        return result

    expression = opt_einsum.contract_expression(_FORM, *[x.shape for x in arrays])
    for got in (contracted(a), ef.trace(contracted)(a), expression(a, b, c)):
        np.testing.assert_allclose(got.numpy(), want)
    slope = ef.grad(lambda x: contracted(x).sum())(a)
    np.testing.assert_allclose(slope.numpy()[0], (arrays[1] @ arrays[2]).sum(1))
