"""A VAE on digits: dense encoder and decoder, Bernoulli likelihood, KL of distributions."""

import numpy as np
from sklearn.datasets import load_digits

import eagerflow as ef
import eagerflow.nn.functional as F
from eagerflow.distributions import Bernoulli, Normal

LATENT, HIDDEN, BATCH, EPOCHS = 4, 64, 128, 12
ef.random.seed(0)
X = (load_digits().data / 16).astype("float32")
train, test = X[:1500], ef.tensor(X[1500:])


class Encoder(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = ef.nn.Sequential(ef.nn.Linear(64, HIDDEN), F.relu)
        self.mu = ef.nn.Linear(HIDDEN, LATENT)
        self.log_sigma = ef.nn.Linear(HIDDEN, LATENT)

    def forward(self, x):
        h = self.body(x)
        return Normal(self.mu(h), ef.exp(self.log_sigma(h)))


class VAE(ef.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = ef.nn.Sequential(
            ef.nn.Linear(LATENT, HIDDEN), F.relu, ef.nn.Linear(HIDDEN, 64)
        )
        self.prior = Normal(0.0, 1.0)

    def forward(self, x):
        q = self.encoder(x)
        z = q.sample()
        return Bernoulli(logits=self.decoder(z)), q

    def elbo(self, x):
        p, q = self(x)
        reconstruction = -p.log_prob(x).sum(-1)
        kl = ef.distributions.kl(q, self.prior).sum(-1)
        return reconstruction.mean(), kl.mean()


model = VAE()
optimizer = ef.optim.Adam(model.trainable, lr=2e-3)
loader = ef.data.Dataset.from_tensors(train).shuffle(seed=0).batch(BATCH)


def loss_of(x):
    reconstruction, kl = model.elbo(x)
    return reconstruction + kl, (reconstruction, kl)


def step(x):
    (loss, aux), grads = ef.value_and_grad(loss_of, wrt=model.trainable, has_aux=True)(x)
    optimizer.update(grads)
    return loss, *aux


fast = ef.trace(step)

# KL of the library against the formula and against Monte Carlo
q = Normal(ef.tensor([0.5, -1.0]), ef.tensor([0.8, 1.5]))
p = Normal(ef.zeros(2), ef.ones(2))
formula = 0.5 * (q.scale**2 + q.loc**2 - 1) - ef.log(q.scale)
assert ef.allclose(ef.distributions.kl(q, p), formula)
s = q.sample((100000,))
mc = (q.log_prob(s) - p.log_prob(s)).mean(0)
print("kl", ef.distributions.kl(q, p), "monte carlo", mc)

for epoch in range(EPOCHS):
    rows = [[float(v) for v in (fast if epoch else step)(x)] for x in loader]
    if epoch % 3 == 0 or epoch == EPOCHS - 1:
        total, rec, kl = np.mean(rows, axis=0)
        vrec, vkl = model.elbo(test)
        print(
            f"epoch {epoch:2d} elbo {-total:.2f} rec {rec:.2f} kl {kl:.2f}",
            f"test {-(vrec + vkl):.2f}",
        )
assert total < 33


@ef.trace
def sample(n):
    z = model.prior.sample((n, LATENT))
    return F.sigmoid(model.decoder(z)).reshape(n, 8, 8)


images = sample(5)
print(images.shape)
for row in np.concatenate(list(images.numpy()), axis=1):
    print("".join(" .:-=+*#%@"[int(v * 9.99)] for v in row))

# latent interpolation by vmap
mu = model.encoder(test[:2]).mean
path = ef.vmap(lambda t: model.decoder(mu[0] * (1 - t) + mu[1] * t))(ef.linspace(0, 1, 6))
print("interpolation", path.shape)
grads = ef.vmap(ef.grad(lambda z: model.decoder(z).sum()))(mu)
print("per sample gradient", grads.shape)
