"""Hints for users of other frameworks: names used there, and their replacements here.

Only errors use the hints, and the first such error loads them: `eagerflow/unknown_names.py`.
"""

from __future__ import annotations

from typing import Final

from eagerflow.hints.attribute_names import (
    ACCUMULATORS,
    ALSO_FUNCTIONS,
    ARRAYS,
    EVENTS,
    EXPLAINED,
    GRAPHS,
    LINE_ROWS,
    OP_ROWS,
    PROFILES,
    QUEUES,
    TRACED,
)
from eagerflow.hints.data import DATA, DATASETS, ITERATORS
from eagerflow.hints.function_names import (
    EXTENDING,
    FUNCTIONS,
    GENERATORS,
    LINALG,
    OPS,
    RANDOM,
    SETTING_NAMES,
    SETTINGS,
    SPELLINGS,
)
from eagerflow.hints.nn import (
    DISTRIBUTIONS,
    DRAWS,
    FUNCTIONAL,
    MODULES,
    NN,
    function_hint,
    initial_hint,
)
from eagerflow.hints.optim import LBFGS, OPTIM, OPTIMISERS, SCHEDULES
from eagerflow.hints.other_namespaces import hint_at_home
from eagerflow.hints.parameter_names import AXES, PAIRS
from eagerflow.hints.replacement_programs import PROGRAMS

__all__ = ["ATTRIBUTES", "MODULE_NAMES", "find"]

#: by module
MODULE_NAMES: Final = {
    "eagerflow": PROGRAMS
    | SETTING_NAMES
    | FUNCTIONS
    | {name: ARRAYS[name] for name in ALSO_FUNCTIONS},
    "eagerflow.data": DATA,
    "eagerflow.distributions": DISTRIBUTIONS,
    "eagerflow.extending": EXTENDING,
    "eagerflow.linalg": LINALG,
    "eagerflow.nn": NN,
    "eagerflow.nn.functional": FUNCTIONAL,
    "eagerflow.optim": OPTIM,
    "eagerflow.random": RANDOM,
}
#: by module, functions that make hints for names without a table
_RULES: Final = {"eagerflow.nn": function_hint, "eagerflow.nn.init": initial_hint}
#: by class; each class lists the names, from which `hint_at` makes attributes
ATTRIBUTES: Final = {
    "AbstractArray": ARRAYS,
    "AbstractDistribution": DRAWS,
    "AbstractEvent": EVENTS,
    "AbstractOptimiser": OPTIMISERS,
    "AbstractSchedule": SCHEDULES,
    "Accumulator": ACCUMULATORS,
    "Dataset": DATASETS,
    "DatasetIterator": ITERATORS,
    "Generator": GENERATORS,
    "Graph": GRAPHS,
    "LBFGS": LBFGS,
    "LineStatistics": LINE_ROWS,
    "Module": MODULES,
    "Op": OPS,
    "OpStatistics": OP_ROWS,
    "Profile": PROFILES,
    "Queue": QUEUES,
    "TracedFunction": TRACED,
}
#: by what takes the name, which is the value of an argument, or that of the function
_VALUES: Final = {"axis": AXES, "explain": EXPLAINED, "pair": PAIRS}
#: of modules below the package, whose names PyTorch has in the package as well
_BELOW: Final = (FUNCTIONAL, LINALG, RANDOM)


def find(owner: str, name: str) -> str | None:
    """The hint for a name that a module or a class lacks, if there is one.

    Args:
        owner: the name of the module or the class; ``"axis"`` for functions that are given a value
            in the place of an axis; ``"explain"`` for that method; ``"pair"`` for functions that
            give values and indices elsewhere.
        name: the name that it lacks, or of the function.
    """
    if owner in ATTRIBUTES:
        return ATTRIBUTES[owner].get(name)
    if owner in _VALUES:
        return _VALUES[owner].get(name)
    table = SETTINGS if owner == "eagerflow.config" else MODULE_NAMES.get(owner, {})
    if name in table:
        return table[name]
    by_rule = _RULES.get(owner)
    match = None if by_rule is None else by_rule(name)
    if match is None and name in SPELLINGS:
        match = f"did you mean {SPELLINGS[name]!r}?"
    if match is None and owner == "eagerflow":
        match = next((table[name] for table in _BELOW if name in table), None)
    match = match or hint_at_home(owner, name)
    if match is None and name.endswith("_") and not name.startswith("_"):
        return find(owner, name[:-1])  # in place elsewhere
    return match
