"""Hints for names of datasets and their methods in other frameworks."""

from typing import Final

_PARTS: Final = "x[order[:n]] and x[order[n:]], with order = ef.random.permutation(len(x))"
#: of ``ef.data``
DATA: Final = {
    "DataLoader": "ef.data.Dataset.from_tensors((x, y)).shuffle(seed=0).batch(50)",
    "BatchSampler": "data.batch(count)",
    **dict.fromkeys(
        ("ChainDataset", "ConcatDataset"),
        "ef.data.Dataset.from_iterable(lambda: itertools.chain(first, second))",
    ),
    "DistributedSampler": "x[task::tasks] are the rows of one task",
    "RandomSampler": "data.shuffle(seed=0)",
    "Sampler": "indices are data: ef.data.Dataset.from_iterable(indices).map(lambda i: x[i])",
    "SequentialSampler": "leave it out: elements come in order",
    "StackDataset": "ef.data.Dataset.zip(first, second)",
    "WeightedRandomSampler": "i = ef.random.categorical((count,), ef.log(weights)) draws rows: "
    "ef.data.Dataset.from_tensors(x[i])",
    **dict.fromkeys(
        ("default_collate", "default_convert"), "data.batch(count) stacks the elements"
    ),
    "get_worker_info": "leave it out: data.map(f, workers=4) calls f in threads",
    "IterableDataset": "ef.data.Dataset.from_iterable(function)",
    "SubsetRandomSampler": "ef.data.Dataset.from_tensors(x[indices]).shuffle(seed=0)",
    "Subset": "ef.data.Dataset.from_tensors(x[indices]); of a dataset, data.take(count) and "
    "data.skip(count) are the first and the rest",
    "TensorDataset": "ef.data.Dataset.from_tensors((x, y)): its elements are the rows",
    **dict.fromkeys(("random_split", "train_test_split"), _PARTS),
}

#: hint where a class has `Dataset` as a base
NO_BASE: Final = (
    "leave out the base: an object with __len__ and __getitem__ is a source, "
    "Dataset.from_iterable({}(...)), and so is one with __iter__"
)
_MADE: Final = "Dataset.from_iterable({})"

_READ: Final = (
    "an iterator has the position: it = iter(data), and for x in it: ...; it.state reads it, and "
    "data.iterator(state) goes on from it; ef.checkpoint.save(path, {'model': net, 'data': it}) "
    "keeps it with the rest, and load(path, like=...) of the same dict puts it back. It lasts one "
    "epoch: it = iter(data) after each, in an order of its own, or it = iter(data.repeat(epochs))"
)
_GO_ON: Final = (
    "it = data.iterator(state) goes on from it.state of another run, and "
    "it = iter(data); ef.checkpoint.load(path, like={'model': net, 'data': it}) from a "
    "checkpoint, to the end of that epoch; it = iter(data) is the next one"
)
#: of datasets
DATASETS: Final = {
    **dict.fromkeys(("checkpoint", "get_state", "position", "save", "state", "state_dict"), _READ),
    **dict.fromkeys(("load_state", "load_state_dict", "restore", "set_state"), _GO_ON),
    "apply": "call the function with the dataset, which is a value: data = f(data)",
    "as_numpy_iterator": "for x in data: x.numpy()",
    "cache": "read it into memory once: " + _MADE.format("list(data)"),
    "cardinality": "len(data)",
    "concatenate": _MADE.format("lambda: itertools.chain(first, second)"),
    "dataset": "keep the dataset before .batch(): len(data) counts elements, here batches",
    "enumerate": "for i, x in enumerate(data): ...",
    "flat_map": "a generator function that reads the dataset: " + _MADE.format("rows"),
    "from_generator": _MADE.format("function") + " calls the function for each epoch",
    "from_list": _MADE.format("elements"),
    "from_tensor_slices": "Dataset.from_tensors(tensors): its elements are the rows",
    "get_single_element": "next(iter(data))",
    "list_files": _MADE.format("sorted(glob.glob(pattern))"),
    "random_split": _PARTS,
    "range": "Dataset.from_tensors(ef.arange(start, stop))",
    "reduce": "a loop: for x in data: ...",
    "split": _PARTS,
    "unbatch": "a generator function that reads the dataset: " + _MADE.format("rows"),
}

_ITERATOR_GOES_ON: Final = (
    "it.state = state goes on from there; data.iterator(state) is a new iterator that does"
)
#: of iterators over datasets
ITERATORS: Final = {
    **dict.fromkeys(
        ("checkpoint", "get_state", "position", "save", "state_dict"),
        "it.state is the position, plain numbers; "
        "ef.checkpoint.save(path, {'model': net, 'data': it}) keeps it with the rest",
    ),
    **dict.fromkeys(("load_state", "load_state_dict", "restore", "set_state"), _ITERATOR_GOES_ON),
}
