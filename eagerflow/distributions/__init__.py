"""Probability distributions: draws, logarithms of densities, entropies, divergences.

A distribution is a dataclass of its parameters, which are tensors or numbers that broadcast. So it
is a tree: it goes into traced functions, gradients and `eagerflow.vmap` as it is.

>>> import eagerflow as ef
>>> p = ef.distributions.Normal(0.0, 2.0)
>>> ef.round(p.log_prob(ef.tensor([0.0, 2.0])), 3)
Tensor([-1.612, -2.112], f32[2]@cpu:0)
"""

from eagerflow.distributions.base import AbstractDistribution
from eagerflow.distributions.continuous import Exponential, Laplace, Normal, Uniform
from eagerflow.distributions.discrete import Bernoulli, Categorical, Poisson
from eagerflow.distributions.divergence import kl
from eagerflow.distributions.gamma import Beta, Dirichlet, Gamma
from eagerflow.extending import module_dir, module_getattr

__all__ = [
    "AbstractDistribution",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "Exponential",
    "Gamma",
    "Laplace",
    "Normal",
    "Poisson",
    "Uniform",
    "kl",
]

__getattr__ = module_getattr("eagerflow.distributions", globals())
__dir__ = module_dir(globals())
