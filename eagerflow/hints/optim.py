"""Hints for names of optimisers, schedules and their methods in other frameworks."""

from typing import Final

from eagerflow.hints.function_names import TRAINING

_SCHEDULE: Final = (
    "a schedule is the learning rate of the optimiser and counts updates (not epochs) by itself: "
    "lr=ef.optim.{}"
)

#: names of schedules elsewhere, by our class with its arguments
_FUNCTIONS: Final = {
    "ChainedSchedule(schedules, milestones)": ("join_schedules",),
    "ChainedSchedule([0.01, 0.1], milestones=(10,))": ("ConstantLR",),
    "ChainedSchedule([ef.optim.CosineSchedule(0.1, steps=10)] * 3, milestones=(10, 20))": (
        "CosineAnnealingWarmRestarts", "CosineDecayRestarts", "sgdr_schedule",
    ),
    "CosineSchedule(0.1, steps=100)": ("CosineDecay", "cosine_decay", "cosine_decay_schedule"),
    "ExponentialSchedule(0.1, gamma=0.99)": (
        "ExponentialDecay", "exponential_decay", "exponential_decay_schedule",
    ),
    "MultiStepSchedule(0.1, milestones=(30, 80))": (
        "PiecewiseConstantDecay", "piecewise_constant", "piecewise_constant_schedule",
    ),
    "PolynomialSchedule(0.01, steps=100, final=0.1), from the first rate to the final one": (
        "LinearLR", "linear_schedule",
    ),
    "PolynomialSchedule(0.1, steps=100)": (
        "PolynomialDecay", "PolynomialLR", "polynomial_decay", "polynomial_schedule",
    ),
    "WarmUp(ef.optim.CosineSchedule(0.1, steps=100), steps=10)": (
        "LinearWarmup", "linear_warmup", "warmup", "warmup_constant_schedule",
        "warmup_cosine_decay_schedule",
    ),
}  # fmt: skip

#: of ``ef.optim``
OPTIM: Final = {
    **{name: _SCHEDULE.format(call) for call, names in _FUNCTIONS.items() for name in names},
    "AveragedModel": "ef.optim.ExponentialMovingAverage(net.parameters, decay=0.999)",
    "MultiSteps": "ef.optim.GradientAccumulation(optimiser, steps)",
    "ChainedScheduler": _SCHEDULE.format("ChainedSchedule(schedules, milestones)"),
    "CosineAnnealingLR": _SCHEDULE.format("CosineSchedule(0.1, steps=epochs * batches)"),
    "ExponentialLR": _SCHEDULE.format("ExponentialSchedule(0.1, gamma=0.99)"),
    **dict.fromkeys(
        ("CyclicLR", "LambdaLR", "MultiplicativeLR"),
        "the learning rate may be a function of the number of updates: lr=lambda n: ...",
    ),
    "MultiStepLR": _SCHEDULE.format(
        "MultiStepSchedule(0.1, milestones=(30 * batches, 80 * batches))"
    ),
    "OneCycleLR": _SCHEDULE.format("OneCycleSchedule(0.1, total_steps=100)"),
    "ReduceLROnPlateau": "optimiser.lr may be set at any time: optimiser.lr = 0.5 * optimiser.lr",
    "SequentialLR": _SCHEDULE.format("ChainedSchedule(schedules, milestones)"),
    **dict.fromkeys(
        ("ASGD", "Adafactor", "Adamax", "Muon", "NAdam", "RAdam", "Rprop"),
        "not here: ef.optim.Adam and ef.optim.AdamW are near; a rule of your own is a subclass of "
        "ef.optim.AbstractOptimiser",
    ),
    "LRScheduler": "a function of the number of updates is a schedule: lr=lambda n: ...",
    "SparseAdam": "ef.optim.Adam takes sparse gradients as they are",
    "StepLR": _SCHEDULE.format("StepSchedule(0.1, step_size=30 * batches)"),
    **dict.fromkeys(
        ("clip_grad_norm", "clip_grad_norm_"),
        "grads, norm = ef.optim.clip_by_global_norm(grads, max_norm)",
    ),
    **dict.fromkeys(
        ("clip_grad_value", "clip_grad_value_"), "grads = ef.optim.clip_by_value(grads, limit)"
    ),
    "swa_utils": "ef.optim.ExponentialMovingAverage(net.parameters, decay=0.999)",
    "lr_scheduler": _SCHEDULE.format("CosineSchedule(0.1, steps=100)"),
}

_RATE: Final = "optimiser.current_lr is the rate of the next update, a tensor"
#: of optimisers
OPTIMISERS: Final = {
    "add_param_group": "a second optimiser of the other variables, or one of all from the start",
    "apply_gradients": "optimiser.update(grads)",
    **dict.fromkeys(
        ("global_step", "iterations", "num_updates", "steps"),
        "optimiser.count is the number of updates: optimiser.count.item()",
    ),
    **dict.fromkeys(
        ("get_last_lr", "get_lr", "learning_rate"),
        f"optimiser.lr is the number or the schedule, and may be set; {_RATE}",
    ),
    "load_state_dict": "optimiser.load_state(state)",
    "minimize": TRAINING,
    "param_groups": f"optimiser.lr is the number or the schedule, and may be set; {_RATE}; "
    "lr_scale= and weight_decay= may be functions of a variable's path and the variable",
    "state_dict": "optimiser.state is a dict of its variables",
    "step": TRAINING + "; optimiser.count is the number of updates",
    "variables": "optimiser.state",
    "zero_grad": TRAINING,
}

_COUNTED: Final = (
    "leave it out: the optimiser counts its updates, and asks the schedule for the rate"
)
#: of schedules
SCHEDULES: Final = {
    "step": _COUNTED,
    "last_epoch": "optimiser.count is the number of updates",
    **dict.fromkeys(
        ("base_lrs", "get_last_lr", "get_lr", "item", "numpy"),
        f"schedule(n) is the rate after n updates; {_RATE}",
    ),
    **dict.fromkeys(
        ("load_state", "load_state_dict", "state", "state_dict"),
        "a schedule has no state: optimiser.state has the number of updates, optimiser.count",
    ),
}

_LBFGS_STEP: Final = (
    "optimiser.step(loss_fn): it looks at the loss several times, loss_fn() gives it"
)
#: of `LBFGS`, which is no optimiser of gradients
LBFGS: Final = {
    "apply_gradients": _LBFGS_STEP,
    "load_state_dict": OPTIMISERS["load_state_dict"],
    "minimize": _LBFGS_STEP,
    "state_dict": OPTIMISERS["state_dict"],
    "update": _LBFGS_STEP,
    "zero_grad": _LBFGS_STEP,
}
