"""SciPy and scikit-learn, where they follow the array API standard, accept tensors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import numpy as np, scipy.cluster, scipy.differentiate, scipy.fft, scipy.integrate, scipy.ndimage
import scipy.signal, scipy.special, scipy.stats, sklearn
from scipy.spatial.transform import Rotation
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import MinMaxScaler, StandardScaler
import eagerflow as ef

draws = np.random.default_rng(0)
line, table = draws.normal(size=30), draws.normal(size=(60, 4))
labels, target = (table[:, 0] > 0).astype("int64"), table @ [1.0, 2.0, 3.0, 4.0]
OF_LINES = [
    scipy.special.erf, scipy.special.gammaln, scipy.special.logsumexp, scipy.special.softmax,
    scipy.stats.skew, scipy.stats.kurtosis, scipy.stats.zscore,
    lambda x: scipy.stats.false_discovery_control(x * x / 100),  # finds no put_along_axis
    lambda x: scipy.stats.ttest_1samp(x, 0.0).pvalue, lambda x: scipy.stats.quantile(x, 0.3),
    scipy.fft.rfft, scipy.fft.dct, scipy.signal.detrend, scipy.signal.hilbert,
    lambda x: scipy.signal.fftconvolve(x, x), scipy.integrate.cumulative_trapezoid,
    lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
    lambda x: Rotation.from_rotvec(x[:3]).as_matrix(),
]
OF_TABLES = [
    lambda x, y, r: scipy.cluster.hierarchy.linkage(x),
    lambda x, y, r: StandardScaler().fit_transform(x),
    lambda x, y, r: MinMaxScaler().fit_transform(x),
    lambda x, y, r: PCA(2, svd_solver="full").fit_transform(x),
    lambda x, y, r: Ridge(solver="svd").fit(x, r).coef_,
    lambda x, y, r: LinearDiscriminantAnalysis().fit(x, y).predict(x),
    lambda x, y, r: GaussianMixture(2, random_state=0, init_params="random").fit(x).means_,
    lambda x, y, r: euclidean_distances(x, x[:5]),
]

def check(function, *arrays):
    want, got = function(*arrays), function(*map(ef.tensor, arrays))
    assert isinstance(got, ef.Tensor), function
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)

with np.errstate(all="ignore"), sklearn.config_context(array_api_dispatch=True):
    for function in OF_LINES:
        check(function, line)
    for function in OF_TABLES:
        check(function, table, labels, target)
    assert r2_score(ef.tensor(target), ef.tensor(target)) == 1.0
one = ef.tensor(1.0, dtype="float64")
assert abs(scipy.differentiate.derivative(ef.exp, one).df.item() - np.e) < 1e-9
assert abs(scipy.integrate.tanhsinh(ef.square, 0 * one, one).integral.item() - 1 / 3) < 1e-9
"""


@pytest.mark.slow
def test_functions_of_the_standard_take_tensors() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}  # read when SciPy is imported
    subprocess.run([sys.executable, "-W", "ignore", "-c", _PROGRAM], env=environment, check=True)
