"""Errors for names of other frameworks, with the names of eagerflow in their place."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from functools import reduce
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import unknown_names
from eagerflow.core.tensor import AbstractArray
from eagerflow.errors import SettingError, TensorValueError, UnknownNameError
from eagerflow.hints import ATTRIBUTES, MODULE_NAMES
from eagerflow.hints.attribute_names import ACCUMULATORS, ARRAYS, GRAPHS, PROFILES, QUEUES, ROWS
from eagerflow.hints.data import DATASETS, ITERATORS, NO_BASE
from eagerflow.hints.function_names import GENERATORS, SPELLINGS
from eagerflow.hints.nn import DRAWS, MODULES
from eagerflow.hints.optim import LBFGS, OPTIMISERS, SCHEDULES
from eagerflow.ops.state.variables import Variable
from tests.messages import says


def _objects() -> dict[str, tuple[Any, Any]]:
    variable = ef.Variable([1.0, 2.0])
    return {
        "Tensor": (ef.ones(2), ARRAYS),
        "Variable": (variable, ARRAYS),
        "Normal": (ef.distributions.Normal(0.0, 1.0), DRAWS),
        "Linear": (ef.nn.Linear(2, 3), MODULES),
        "SGD": (ef.optim.SGD([variable], lr=0.1), OPTIMISERS),
        "LBFGS": (ef.optim.LBFGS([variable]), LBFGS),
        "StepSchedule": (ef.optim.StepSchedule(0.1, step_size=30), SCHEDULES),
        "Generator": (ef.random.Generator(0), GENERATORS),
        "Graph": (ef.Graph(), GRAPHS),
        "Profile": (ef.profile(), PROFILES),
        "Dataset": (ef.data.Dataset.from_tensors(ef.arange(3)), DATASETS),
        "DatasetIterator": (iter(ef.data.Dataset.from_tensors(ef.arange(3))), ITERATORS),
        "Queue": (ef.Queue(3, ef.tensor(0)), QUEUES),
        "Accumulator": (ef.Accumulator(ef.tensor(0.0)), ACCUMULATORS),
    }


@pytest.mark.parametrize("kind", list(_objects()))
def test_an_attribute_of_another_framework_is_an_error_with_a_hint(kind: str) -> None:
    owner, hints = _objects()[kind]
    for name, hint in hints.items():
        with pytest.raises(UnknownNameError, match=f"{kind} has no '{name}'") as caught:
            getattr(owner, name)
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    "owner",
    [AbstractArray, ef.distributions.AbstractDistribution, ef.optim.AbstractOptimiser,
     ef.optim.AbstractSchedule, ef.Accumulator, ef.data.Dataset,
     type(iter(ef.data.Dataset.from_tensors(ef.arange(3)))), ef.optim.LBFGS, ef.nn.Module,
     ef.Graph, ef.Queue, ef.random.Generator, type(ef.profile())],
)  # fmt: skip
def test_each_name_of_a_table_is_listed_by_its_class(owner: type) -> None:
    absent = {n for n, v in vars(owner).items() if isinstance(v, unknown_names.AbstractAbsent)}
    assert absent == set(ATTRIBUTES[owner.__name__])


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("slogdet", "ef.linalg.slogdet(x, /)"),
        ("dropout", "ef.nn.functional.dropout(x, p=0.5, training=True, *, generator=None)"),
        ("default_generator", "ef.random.default_generator()"),
        ("functional", "ef.nn.functional"),
        ("conv2d", "ef.nn.functional.conv2d(input, weight, bias=None"),
        ("nn.Adam", "ef.optim.Adam(variables, lr=0.001"),
        ("linalg.einsum", "ef.einsum(*args, optimize="),
        ("ctc_loss", "not here: ef.scan over time"),
        ("nn.GaussianNLLLoss", "-ef.distributions.Normal(mean, ef.sqrt(variance)).log_prob(y)"),
        ("nn.ReflectionPad2d", "use the function ef.nn.functional.pad in forward"),
        ("nn.Dropout2d", "use the function ef.nn.functional.dropout2d(x, p, training=self.tr"),
        ("clamp_", "did you mean 'clip'?"),
        ("floor_", "did you mean 'floor'?"),
    ],
)
def test_a_name_of_another_namespace_is_an_error_with_its_place(path: str, hint: str) -> None:
    *spaces, name = path.split(".")
    with pytest.raises(UnknownNameError) as caught:
        getattr(reduce(getattr, spaces, ef), name)
    assert str(caught.value.hint).startswith(hint)


#: public names that programs of PyTorch use most
_COMMON_NAMES = {
    "": """addcmul amax as_tensor baddbmm batch_norm bernoulli block_diag bmm bucketize
        cartesian_prod cat cdist chunk clamp clone combinations complex conv1d conv2d conv3d cuda
        default_generator det detach dropout embedding enable_grad flatten float frac from_numpy
        gather Generator get_default_dtype get_num_threads get_rng_state group_norm half histc
        index_select inference_mode initial_seed inverse is_grad_enabled is_tensor kl_div kthvalue
        layer_norm lerp load logcumsumexp logdet long manual_seed masked_fill masked_select
        matrix_exp matrix_power mm mode mps multinomial multiprocessing mv narrow no_grad norm
        normal numel permute pinverse pixel_shuffle poisson polar prelu qr rand rand_like randint
        randn randn_like randperm repeat_interleave rms_norm save scalar_tensor scatter selu
        set_float32_matmul_precision set_grad_enabled set_num_threads slogdet solve svd swapdims
        take_along_dim tensor_split testing unbind unflatten unique_consecutive unsqueeze
        view_as_complex view_as_real""",
    "nn": """AdamW Bilinear Buffer ConstantPad2d CrossEntropyLoss CTCLoss Dropout1d Dropout2d
        Dropout3d ELU EmbeddingBag Fold GaussianNLLLoss GELU GLU Hardswish HuberLoss InstanceNorm2d
        KLDivLoss L1Loss LazyConv2d LazyLinear LeakyReLU LogSoftmax MSELoss Mish ModuleDict
        ModuleList NLLLoss PReLU Parameter ParameterDict ParameterList PixelShuffle PoissonNLLLoss
        ReLU ReLU6 ReflectionPad2d ReplicationPad2d SELU SiLU Sigmoid SmoothL1Loss SoftMarginLoss
        Softmax Softplus SyncBatchNorm Tanh Transformer TripletMarginLoss Unflatten Unfold
        Upsample UpsamplingBilinear2d ZeroPad2d parameter utils""",
    "nn.functional": """bilinear ctc_loss embedding_bag fold gaussian_nll_loss grid_sample
        gumbel_softmax hinge_embedding_loss poisson_nll_loss soft_margin_loss unfold upsample""",
    "nn.init": """calculate_gain constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_
        ones_ orthogonal_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_ zeros_""",
    "optim": """ASGD Adamax ChainedScheduler ConstantLR CosineAnnealingLR
        CosineAnnealingWarmRestarts CyclicLR ExponentialLR LambdaLR LinearLR MultiStepLR
        MultiplicativeLR NAdam OneCycleLR Optimizer PolynomialLR RAdam ReduceLROnPlateau Rprop
        SequentialLR SparseAdam StepLR lr_scheduler swa_utils""",
    "data": """BatchSampler ChainDataset ConcatDataset DataLoader DistributedSampler IterableDataset
        RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler
        TensorDataset WeightedRandomSampler default_collate get_worker_info random_split""",
    "distributions": """Binomial Cauchy Chi2 Distribution Geometric Gumbel HalfNormal Independent
        InverseGamma LogNormal MixtureSameFamily Multinomial MultivariateNormal NegativeBinomial
        OneHotCategorical Pareto RelaxedBernoulli RelaxedOneHotCategorical StudentT TanhTransform
        TransformedDistribution Weibull kl_divergence""",
}


@pytest.mark.parametrize("space", list(_COMMON_NAMES))
def test_names_that_programs_of_pytorch_use_most_have_a_hint(space: str) -> None:
    module = reduce(getattr, filter(None, space.split(".")), ef)
    silent = []
    for name in _COMMON_NAMES[space].split():
        try:
            getattr(module, name)
        except UnknownNameError as error:
            silent += [] if error.hint else [name]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("binomial", 3 * 0.4),
        ("chisquare", 5.0),
        ("geometric", 1 / 0.4),
        ("laplace", 1.0),
        ("logistic", 1.0),
        ("lognormal", math.exp(0.5 + 0.25**2 / 2)),
        ("negative_binomial", 3 * 0.6 / 0.4),
        ("pareto", 1 / 3),
        ("rayleigh", 2 * math.sqrt(math.pi / 2)),
        ("standard_exponential", 1.0),
        ("standard_gamma", 2.5),
        ("standard_t", 0.0),
        ("weibull", math.gamma(1.25)),
    ],
)
def test_a_draw_that_is_made_of_others_has_its_mean(name: str, mean: float) -> None:
    values = {
        "a": 4.0, "concentration": 2.5, "df": 5.0, "ef": ef, "loc": 1.0, "mean": 0.5, "n": 3,
        "p": 0.4, "scale": 2.0, "shape": (100_000,), "sigma": 0.25,
    }  # fmt: skip
    ef.random.seed(0)
    draws = eval(MODULE_NAMES["eagerflow.random"][name], values)
    assert draws.shape == (100_000,)
    assert float(draws.mean()) == pytest.approx(mean, abs=0.03)


def test_a_table_that_is_there_becomes_an_embedding_as_its_hint_says() -> None:
    with pytest.raises(UnknownNameError) as caught:
        getattr(ef.nn.Embedding, "from_pretrained")
    table = ef.ones((3, 2))
    values: dict[str, Any] = {"ef": ef, "table": table}
    exec(str(caught.value.hint).removesuffix(" keeps it as it is"), values)
    assert ef.array_equal(values["layer"](ef.tensor([1])), table[1:2])
    assert values["layer"].trainable == {}


def test_a_text_that_a_hint_repeats_is_that_of_the_error() -> None:
    variable = ef.Variable([1.0])
    with pytest.raises(ef.errors.VariableError) as caught:
        variable[0] = 2.0
    assert str(caught.value.hint).replace("write ", "of a variable: ") == ROWS
    with pytest.raises(TensorValueError) as refused:
        type("Rows", (ef.data.Dataset,), {})
    assert refused.value.hint == NO_BASE.format("Rows")


def test_the_first_error_loads_the_hints() -> None:
    program = (
        "import os, sys, eagerflow as ef; ef.nn, ef.optim, ef.data, ef.trace; x = ef.ones(2)\n"
        "assert not any('hints' in name for name in sys.modules)\n"
        "for wrong in sys.argv[1:]:\n"  # each in a copy of the process that has loaded no hints
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        eval(wrong)\n"
        "        sys.exit('eagerflow.hints.function_names' not in sys.modules)\n"
        "    assert os.waitpid(pid, 0)[1] == 0, wrong\n"
    )
    wrong = ("hasattr(x, 'cuda')", "hasattr(ef, 'randn')", "hasattr(ef.random, 'choice')")
    subprocess.run([sys.executable, "-c", program, *wrong], check=True)


def test_a_class_tells_as_its_objects_do() -> None:
    with pytest.raises(UnknownNameError, match="Dataset has no 'from_tensor_slices'") as caught:
        ef.data.Dataset.from_tensor_slices([1, 2])
    assert caught.value.hint == "Dataset.from_tensors(tensors): its elements are the rows"
    with pytest.raises(TensorValueError, match="not made by its constructor") as refused:
        ef.data.Dataset([1, 2])
    assert "Dataset.from_iterable(elements)" in str(refused.value.hint)


def test_what_is_said_of_datasets_and_queues_does_it() -> None:
    data = ef.data.Dataset.from_tensors(ef.arange(3))
    kept = ef.data.Dataset.from_iterable(list(data))
    both = ef.data.Dataset.from_iterable(lambda: itertools.chain(data, kept))
    for _ in range(2):
        assert [x.item() for x in both] == [0, 1, 2, 0, 1, 2]
    assert next(iter(data)).item() == 0
    queue = ef.Queue(1, ef.tensor(0))
    assert queue.size() == 0
    queue.enqueue(1, timeout=0)
    assert queue.size() == queue.capacity
    assert queue.dequeue(timeout=0).item() == 1


@pytest.mark.parametrize("kind", list(_objects()))
def test_it_is_as_if_the_attribute_were_not_there(kind: str) -> None:
    owner, hints = _objects()[kind]
    for name in hints:
        assert not hasattr(owner, name)
        assert getattr(owner, name, 3) == 3
        assert not hasattr(type(owner), name)
    assert not set(hints) & set(dir(owner))
    assert "__class__" in dir(owner)


@pytest.mark.parametrize("name", ["parameters", "buffers", "state", "trainable"])
def test_a_property_that_is_called_is_an_error_with_a_hint(name: str) -> None:
    net = ef.nn.BatchNorm(2)  # it has all of them
    words = re.escape(f"BatchNorm has no method '{name}'")
    for call in ("net.{}()", "[*net.{}()]", "net.{}(recurse=True)", "f(x=net.{}(1))"):
        with pytest.raises(UnknownNameError, match=words) as caught:
            eval(call.format(name), {"net": net, "f": dict})
        assert f"{name}.values()" in str(caught.value.hint)
    for _ in range(100):  # Python changes instructions that run often
        assert type(getattr(net, name)) is dict
        use = "[net.{0}, len(net.{0}), net.{0}.items(), *net.{0}.values(), f(net.{0})]"
        assert len(eval(use.format(name), {"net": net, "f": list})) >= 5
    with pytest.raises(TypeError):
        getattr(net, name)()  # whose instruction does not show a call


def test_no_attribute_that_there_is_goes_by_a_hook() -> None:
    for kind in (ef.Tensor, Variable, ef.nn.Module, ef.optim.AbstractOptimiser):
        assert not hasattr(kind, "__getattr__")
        assert kind.__getattribute__ is object.__getattribute__


def test_subclasses_may_use_the_names() -> None:
    class Net(ef.nn.Module):
        def __init__(self) -> None:
            self.weights = [ef.Variable([1.0])]

        def to(self, where: str) -> str:
            return where

        def forward(self, x: Any) -> Any:
            return x * self.weights[0]

    net = Net()
    assert {"to", "weights", "forward"} <= set(dir(net))
    assert net.to("here") == "here"
    assert list(net.state) == ["weights.0"]
    assert net(ef.tensor([2.0])).tolist() == [2.0]
    assert ef.trace(net)(ef.tensor([2.0])).tolist() == [2.0]


@pytest.mark.parametrize("value", [ef.ones(2), ef.Variable(1.0)], ids=["tensor", "variable"])
def test_to_set_it_is_an_error_where_it_cannot_be(value: Any) -> None:
    with pytest.raises(UnknownNameError, match="has no 'requires_grad'") as caught:
        value.requires_grad = False
    assert "net.freeze()" in str(caught.value.hint)
    with pytest.raises(UnknownNameError, match="has no 'data'"):
        value.data = 1


def test_help_says_it_too() -> None:
    assert repr(vars(ef.nn.Module)["state_dict"]) == (
        "<not here: net.state is a dict of its variables>"
    )


@pytest.mark.parametrize(
    ("space", "hints"),
    MODULE_NAMES.items(),
)
def test_a_function_of_another_framework_is_an_error_with_a_hint(
    space: str, hints: dict[str, str]
) -> None:
    module = reduce(getattr, space.split(".")[1:], ef)
    for name, hint in hints.items():
        with pytest.raises(UnknownNameError, match=f"{space} has no '{name}'") as caught:
            getattr(module, name)
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("standard_normal", "random.normal"), ("arrange", "arange"), ("cat", "concat"),
     ("constant", "tensor"),
     ("reduce_sum", "sum"), ("FIFOQueue", "Queue"), ("randperm", "random.permutation"),
     ("long", "int64")],
)  # fmt: skip
def test_the_nearest_name(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        getattr(ef, name)
    assert caught.value.hint == f"did you mean {suggestion!r}?"


def test_the_nearest_initial_value() -> None:
    for name, suggestion in (("xavier_uniform_", "xavier_uniform"), ("zeros_", "zeros"),
                             ("trunc_normal_", "truncated_normal")):  # fmt: skip
        with pytest.raises(UnknownNameError, match=r"eagerflow\.nn\.init has no") as caught:
            getattr(ef.nn.init, name)
        said = f"it gives a value: v.assign(ef.nn.init.{suggestion}(v.shape))"
        assert caught.value.hint == said


def test_a_choice_is_made_as_it_is_said() -> None:
    x = ef.tensor([10, 20, 30, 40])
    ef.random.seed(0)
    again = x[ef.random.randint((100,), 0, len(x))]
    assert set(again.tolist()) == {10, 20, 30, 40}
    logits = ef.log(ef.tensor([0.0, 0.5, 0.0, 0.5]) + 1e-30)
    assert set(x[ef.random.categorical((100,), logits)].tolist()) == {20, 40}
    once = ef.random.permutation(x)[:3].tolist()
    assert len(set(once)) == 3
    assert set(once) <= {10, 20, 30, 40}


def test_what_is_said_of_tensors_does_it() -> None:
    x, y = ef.tensor([[3.0, -1.0], [2.0, 5.0]]), ef.zeros((2, 2))
    assert x.clip(0, 4).tolist() == [[3.0, 0.0], [2.0, 4.0]]
    assert ef.take_along_axis(x, ef.argsort(x, axis=1), axis=1).tolist() == [[-1, 3], [2, 5]]
    assert ef.expand_dims(x, 0).shape == (1, 2, 2)
    assert [part.shape for part in ef.array_split(x, 2, 0)] == [(1, 2), (1, 2)]
    assert ef.repeat(x, 2).shape == (8,)
    assert x.swapaxes(0, 1).tolist() == x.T.tolist() == [[3, 2], [-1, 5]]
    parts = ef.split(ef.arange(5), range(2, 5, 2))
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    y[...] = x
    assert y.tolist() == x.tolist()
    y[...] = 0
    assert y.tolist() == [[0, 0], [0, 0]]


def test_what_is_said_of_generators_and_rates_does_it() -> None:
    generator, other = ef.random.Generator(5), ef.random.Generator(6)
    state = generator.state
    first = generator.uniform((3,)).tolist()
    generator.state = state
    assert generator.uniform((3,)).tolist() == first
    other.load_state(state)
    assert other.uniform((3,)).tolist() == first
    generator.state = {"seed": 5, "ticket": 0}
    assert generator.uniform((3,)).tolist() == first
    with pytest.raises(TensorValueError, match="not the state of a generator"):
        other.load_state([5, 0])  # type: ignore[arg-type] - is refused
    schedule = ef.optim.StepSchedule(0.5, step_size=1, gamma=0.5)
    optimiser = ef.optim.SGD([ef.Variable([1.0])], lr=schedule)
    optimiser.update([ef.ones(1)])
    assert (optimiser.count.item(), f"{optimiser.current_lr:.3f}") == (1, "0.250")
    for name in ("get_last_lr", "learning_rate", "param_groups"):
        with pytest.raises(AttributeError, check=says("optimiser.current_lr is the rate")):
            getattr(optimiser, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("deterministic", "a run repeats its bits"),
        ("debug_nans", "ef.config(check_nan=True)"),
        ("num_threads", "ef.config(threads=count)"),
        ("chek_nan", "did you mean 'check_nan'?"),
    ],
)
def test_a_setting_of_another_framework(name: str, hint: str) -> None:
    with pytest.raises(SettingError, match=f"there is no setting {name}") as caught:
        ef.config(**{name: True})
    assert hint in str(caught.value.hint)


def test_a_dataset_has_no_subclasses() -> None:
    with pytest.raises(TensorValueError, match="class Squares: Dataset has no sub") as caught:

        class Squares(ef.data.Dataset):  # type: ignore[misc] - is refused
            def __getitem__(self, i: int) -> int:
                return i * i

    assert "Dataset.from_iterable(Squares(...))" in str(caught.value.hint)

    class Rows:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> int:
            return i * i

    batches = ef.data.Dataset.from_iterable(Rows()).batch(2)
    assert [x.tolist() for x in batches] == [[0, 1], [4]]


def test_nothing_is_near() -> None:
    assert unknown_names.nearest("layers.0.wieght", ["layers.0.bias", "layers.0.weight"]) == (
        "layers.0.weight"
    )
    assert unknown_names.nearest("qqq", ["weight", "bias"]) is None
    with pytest.raises(UnknownNameError) as caught:
        ef.qwertz
    assert caught.value.hint is None


_NAMED = re.compile(r"\b(net|optimiser|x|generator|queue|profile|ef)\.([a-z_A-Z.0-9]+)")
_KNOWN = {
    "net": ef.nn.Linear(2, 3),
    "optimiser": ef.optim.SGD([ef.Variable(1.0)], lr=0.1),
    "x": ef.ones(2),
    "generator": ef.random.Generator(0),
    "queue": ef.Queue(3, ef.tensor(0)),
    "profile": ef.profile(),
    "ef": ef,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_name_that_is_spelled_otherwise_is_somewhere(name: str) -> None:
    path = SPELLINGS[name].split(".")
    places: list[Any] = [ef, ef.data, ef.optim, ef.nn.functional, ef.nn.init]
    attributes = [reduce(lambda at, part: getattr(at, part, None), path, place) for place in places]
    assert any(attribute is not None for attribute in attributes)


@pytest.mark.parametrize(("owner_name", "table"), (ATTRIBUTES | MODULE_NAMES).items())
def test_what_is_named_in_a_hint_is_there(owner_name: str, table: dict[str, str]) -> None:
    known = _KNOWN
    if owner_name == "LBFGS":
        known = _KNOWN | {"optimiser": ef.optim.LBFGS([ef.Variable(1.0)])}
    for hint in table.values():
        for owner, rest in _NAMED.findall(hint):
            member: Any = known[owner]
            if rest in ("value", "assign"):
                member = ef.Variable(1.0)
            for part in rest.rstrip(".").split("."):
                member = getattr(member, part)
