"""Black-Scholes, the heat equation, n-body simulation and k-means, against the peers.

Run: ``python -m tests.bench.formulas_beside_peers``; peers that are not installed are left out.
Before anything is timed, results are compared with those of NumPy in float64. After the times
follows the peak memory of each.
"""

from __future__ import annotations

from tests.bench.formulas.works import WORKS
from tests.bench.harness import Contender, Contest, answer, arguments, first_alone, installed, run
from tests.bench.memory import report

#: name: the module of the library, the package that it needs, and extra arguments
_LIBRARIES = {
    "traced": ("eagerflow", "", ""),
    "traced, without kernels": ("eagerflow", "", "compile='off'"),
    "numpy": ("numpy", "", ""),
    "jax.jit": ("jax", "jax", ""),
    "numba": ("numba", "numba", ""),
}
_COMPARED = """
import json
import numpy as np
from tests.bench.formulas.with_numpy import exact
pairs = zip(step(), exact({name!r}, {size}), strict=True)
print(json.dumps([np.allclose(np.asarray(x), wanted, 1e-3, 1e-2) for x, wanted in pairs]))
"""


def contests(smallest: bool) -> list[Contest]:
    """The table; eagerflow first."""
    table = []
    for name, work in WORKS.items():
        size = work.sizes[-1] if smallest else work.sizes[0]
        contenders = []
        for who, (module, needs, more) in _LIBRARIES.items():
            given = ", ".join(filter(None, (repr(name), str(size), more)))
            setup = f"from tests.bench.formulas.with_{module} import step_of\n"
            contenders.append(Contender(who, setup + f"step = step_of({given})\n", "step()", needs))
        budget = {"jax.jit": 1.0, "numba": 1.0}
        table.append(Contest(f"{name}, {size}", contenders, budget))
    return table


def compare(contest: Contest) -> None:
    """Check that all contenders compute the formula.

    Raises:
        AssertionError: the error against float64 is larger than rounding explains.
    """
    name, _, size = contest.name.rpartition(", ")
    for contender in contest.contenders:
        close = answer(contender.setup + _COMPARED.format(name=name, size=size))
        assert isinstance(close, list)
        assert all(close), (contest.name, contender.name, close)


if __name__ == "__main__":
    options = arguments("Formulas").parse_args()
    table = installed(contests(options.smallest), options)
    some = first_alone(table) if options.smallest else table
    for row in some:
        compare(row)
    run("Formulas", table, options)
    report(some)
