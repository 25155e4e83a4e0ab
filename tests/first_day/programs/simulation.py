"""Heat equation, n-body and SIR: while loops that stop by data, and their gradients."""

import numpy as np

import eagerflow as ef

ef.random.seed(0)


# ---------------------------------------------------------------- heat equation
def heat(kappa, u0, tolerance=1e-3, limit=5000):
    """Explicit Euler until the largest change per step is below the tolerance."""
    u = u0
    steps = 0
    change = ef.tensor(np.inf, dtype=u0.dtype)
    while change > tolerance and steps < limit:
        laplacian = u[:-2] - 2 * u[1:-1] + u[2:]
        new = ef.concat([u[:1], u[1:-1] + kappa * laplacian, u[-1:]])
        change = ef.abs(new - u).max()
        u = new
        steps += 1
    return u, steps


u0 = ef.zeros(32, dtype=ef.float64)
u0[0] = 1.0
u0[10:15] = 2.0

heat_traced = ef.trace(heat)
kappa = ef.tensor(0.2, dtype=ef.float64)
u_eager, n_eager = heat(kappa, u0)
u_graph, n_graph = heat_traced(kappa, u0)
print("heat: steps", n_eager, n_graph, "equal bits", bool((u_eager == u_graph).all()))
assert int(n_eager) == int(n_graph)


def energy(kappa):
    u, _ = heat_traced(kappa, u0)
    return (u**2).sum()


value, slope = ef.value_and_grad(energy)(kappa)
slope_traced = ef.trace(ef.grad(energy))(kappa)
h = 1e-6
numeric = (float(energy(kappa + h)) - float(energy(kappa - h))) / (2 * h)
print("heat: gradient", slope.item(), slope_traced.item(), "numeric", numeric)
assert np.isclose(slope.item(), numeric, rtol=1e-5)


# ---------------------------------------------------------------- n-body, class with state
class NBody:
    def __init__(self, n, generator):
        self.mass = ef.random.uniform(
            (n,), low=0.5, high=1.5, generator=generator, dtype=ef.float64
        )
        self.x = ef.random.normal((n, 2), generator=generator, dtype=ef.float64)
        self.v = ef.zeros((n, 2), dtype=ef.float64)
        self.time = ef.Variable(0.0, dtype=ef.float64, name="time")

    def acceleration(self, x, g):
        d = x[None, :, :] - x[:, None, :]
        r2 = (d**2).sum(axis=-1) + 0.05
        return g * (self.mass[None, :, None] * d / (r2**1.5)[..., None]).sum(axis=1)

    @ef.trace
    def run(self, g, until, dt=0.01):
        """Leapfrog until a body leaves a disk or the time is over."""
        x, v = self.x, self.v
        t = self.time
        while t < until:
            v = v + 0.5 * dt * self.acceleration(x, g)
            x = x + dt * v
            v = v + 0.5 * dt * self.acceleration(x, g)
            self.time.assign_add(dt)
            if ef.linalg.vector_norm(x, axis=-1).max() > 4.0:
                break
        self.x, self.v = x, v
        return x, v

    def energy(self, g):
        d = self.x[None] - self.x[:, None]
        r = ef.sqrt((d**2).sum(axis=-1) + 0.05)
        n = len(self.x)
        pot = (
            -g
            * ef.where(
                ef.eye(n, dtype=ef.bool), 0.0, self.mass[:, None] * self.mass[None] / r
            ).sum()
            / 2
        )
        return (0.5 * self.mass * (self.v**2).sum(axis=1)).sum() + pot


system = NBody(5, ef.random.Generator(3))
g = ef.tensor(1.0, dtype=ef.float64)
e0 = float(system.energy(g))
for until in (0.5, 1.0, 1.5):
    system.run(g, until)
    print(
        f"n-body: t={float(system.time):.2f} energy {float(system.energy(g)):.6f} (start {e0:.6f})"
    )
assert abs(float(system.energy(g)) - e0) < 1e-2 * abs(e0)
print(system.run.explain())


# ---------------------------------------------------------------- SIR, fitted by gradient
@ef.trace
def sir(beta, gamma, dt=0.25):
    """Until fewer than 1e-3 are infected; the attack rate and the peak."""
    s, i, r = ef.tensor(0.99), ef.tensor(0.01), ef.tensor(0.0)
    peak, days = i, 0.0
    while i > 1e-3:
        new, rec = beta * s * i * dt, gamma * i * dt
        s, i, r = s - new, i + new - rec, r + rec
        peak = ef.maximum(peak, i)
        days += dt
    return r, peak, days


r_true, peak_true, days = sir(ef.tensor(0.6), ef.tensor(0.25))
print(f"SIR: attack rate {r_true.item():.4f}, peak {peak_true.item():.4f}, days {days}")

log_beta, log_gamma = ef.Variable(ef.log(ef.tensor(0.45))), ef.Variable(ef.log(ef.tensor(0.2)))
optimiser = ef.optim.Adam([log_beta, log_gamma], lr=0.02)


def loss():
    r, peak, _ = sir(ef.exp(log_beta), ef.exp(log_gamma))
    return (r - r_true) ** 2 + (peak - peak_true) ** 2


@ef.trace
def fit():
    error, gradients = ef.value_and_grad(loss, wrt=[log_beta, log_gamma])()
    optimiser.update(gradients)
    return error


for epoch in range(301):
    error = fit()
    if epoch % 75 == 0:
        print(f"SIR fit {epoch}: {error.item():.3e} R0 {float(ef.exp(log_beta - log_gamma)):.3f}")
assert abs(float(ef.exp(log_beta - log_gamma)) - 2.4) < 0.1
print(len(fit.traces), "trace(s)")
