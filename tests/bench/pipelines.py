"""Input pipelines against PyTorch's DataLoader and tf.data: elements per second of whole epochs.

Three sources, each read in batches, in random order, with the same number of workers:

- the digits of scikit-learn, in memory;
- a folder of 5,000 PNG files of 64x64 pixels, which the bench makes;
- a Parquet file of 200,000 rows of 16 columns, likewise (PyTorch and tf.data read no Parquet, and
  get the output of pyarrow, a group of rows at a time).

Run: ``python -m tests.bench.pipelines`` in an environment with the ``bench`` and ``data`` extras.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.bench.harness import Contender, Contest, arguments, installed, run

COLUMNS = 16


@dataclass(frozen=True)
class Sizes:
    """Amounts of data.

    Attributes:
        images: number of files.
        rows: number of rows of the table.
        group: number of rows that are stored together in the Parquet file.
    """

    images: int = 5_000
    rows: int = 200_000
    group: int = 10_000


def make_images(folder: Path, count: int) -> None:
    """Make PNG files with noise on a gradient, which are as hard to decode as photographs."""
    draws = np.random.Generator(np.random.PCG64(0))
    slope = np.linspace(0, 200, 64).astype("uint8")[:, None, None]
    for i in range(count):
        pixels = slope + draws.integers(0, 40, (64, 64, 3), "uint8")
        Image.fromarray(pixels).save(folder / f"{i:05}.png")


def make_table(path: Path, sizes: Sizes) -> None:
    """Make a Parquet file of floats and a label."""
    draws = np.random.Generator(np.random.PCG64(0))
    columns = {f"x{i}": draws.normal(size=sizes.rows).astype("f4") for i in range(COLUMNS - 1)}
    columns["y"] = draws.integers(0, 10, sizes.rows)
    pq.write_table(pa.table(columns), path, row_group_size=sizes.group)


EPOCH = """
def epoch():
    count = 0
    for x, y in dataset:
        count += x.shape[0]
    assert count == {count}, count
"""

DIGITS = """
import numpy as np
draws = np.random.Generator(np.random.PCG64(0))
images = draws.integers(0, 17, (1797, 8, 8)).astype("f4")
labels = draws.integers(0, 10, 1797)
"""

digits = Contest(
    "digits in memory, batches of 32",
    [
        Contender(
            "eagerflow",
            DIGITS + "from eagerflow.data import Dataset\n"
            "dataset = Dataset.from_tensors((images, labels)).shuffle(seed=0).batch(32)\n"
            + EPOCH.format(count=1797),
            "epoch()",
        ),
        Contender(
            "torch",
            DIGITS + "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
            "tensors = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))\n"
            "dataset = DataLoader(tensors, batch_size=32, shuffle=True)\n"
            + EPOCH.format(count=1797),
            "epoch()",
            "torch",
        ),
        Contender(
            "tensorflow",
            DIGITS + "import tensorflow as tf\n"
            "dataset = tf.data.Dataset.from_tensor_slices((images, labels))"
            ".shuffle(1797).batch(32).prefetch(tf.data.AUTOTUNE)\n" + EPOCH.format(count=1797),
            "epoch()",
            "tensorflow",
        ),
    ],
    {"torch": 1.25, "tensorflow": 1.25},
)

FILES = """
from pathlib import Path
names = sorted(map(str, Path({folder!r}).glob("*.png")))
"""


def pictures(folder: Path, count: int) -> Contest:
    """The contest of decoding files by two workers."""
    files = FILES.format(folder=str(folder))
    check = EPOCH.format(count=count)
    ours = (
        "import eagerflow as ef\nfrom eagerflow.data import Dataset, decode_image\n"
        "def load(item):\n    name, label = item\n    return decode_image(name), label\n"
        "items = [(name, i % 10) for i, name in enumerate(names)]\n"
        "dataset = Dataset.from_iterable(items).map(load, workers=2{how})"
        ".shuffle(seed=0).batch(50).prefetch(2)\n"
    )
    torch = (
        "import numpy as np, torch\nfrom PIL import Image\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Files(Dataset):\n"
        "    def __len__(self):\n        return len(names)\n"
        "    def __getitem__(self, i):\n"
        "        with Image.open(names[i]) as image:\n"
        "            return torch.from_numpy(np.array(image.convert('RGB'))), i % 10\n"
        "dataset = DataLoader(Files(), batch_size=50, shuffle=True, num_workers=2)\n"
    )
    tensorflow = (
        "import tensorflow as tf\n"
        "def load(name, label):\n"
        "    return tf.io.decode_png(tf.io.read_file(name), channels=3), label\n"
        "labels = [i % 10 for i in range(len(names))]\n"
        "dataset = tf.data.Dataset.from_tensor_slices((names, labels)).shuffle(5000)"
        ".map(load, num_parallel_calls=2).batch(50).prefetch(2)\n"
    )
    return Contest(
        f"{count:,} PNG files, batches of 50, 2 workers",
        [
            Contender("eagerflow", files + ours.format(how="") + check, "epoch()"),
            Contender(
                "eagerflow, processes",
                files + ours.format(how=", processes=True") + check,
                "epoch()",
            ),
            Contender("torch", files + torch + check, "epoch()", "torch"),
            Contender("tensorflow", files + tensorflow + check, "epoch()", "tensorflow"),
        ],
        {"torch": 1.25, "tensorflow": 1.25},
    )


GROUPS = """
import pyarrow.parquet as pq
file = pq.ParquetFile({path!r})
def groups():
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, use_threads=False)
        yield {{name: column.to_numpy() for name, column in zip(table.column_names, table.columns)}}
"""
ROWS_EPOCH = """
def epoch():
    count = 0
    for batch in dataset:
        count += batch["y"].shape[0]
    assert count == {count}, count
"""


def tables(path: Path, sizes: Sizes) -> Contest:
    """The contest of reading a table's rows, shuffled within a buffer of one group of rows."""
    check = ROWS_EPOCH.format(count=sizes.rows)
    groups = GROUPS.format(path=str(path))
    ours = (
        "from eagerflow.data import Dataset\n"
        f"dataset = Dataset.from_parquet({str(path)!r}).shuffle({sizes.group}, seed=0)"
        ".batch(256).prefetch(2)\n"
    )
    torch = groups + (
        "import torch\nfrom torch.utils.data import DataLoader, IterableDataset\n"
        "class Batches(IterableDataset):\n"
        "    def __iter__(self):\n"
        "        for group in groups():\n"
        "            tensors = {k: torch.from_numpy(v.copy()) for k, v in group.items()}\n"
        "            order = torch.randperm(len(tensors['y']))\n"
        "            for part in order.split(256):\n"
        "                yield {k: v[part] for k, v in tensors.items()}\n"
        "dataset = DataLoader(Batches(), batch_size=None, num_workers=1)\n"
    )
    tensorflow = groups + (
        "import tensorflow as tf\n"
        "types = {k: tf.TensorSpec((None,), v.dtype) for k, v in next(groups()).items()}\n"
        "def shuffled(group):\n"
        "    order = tf.random.shuffle(tf.range(tf.shape(group['y'])[0]))\n"
        "    return {k: tf.gather(v, order) for k, v in group.items()}\n"
        "dataset = tf.data.Dataset.from_generator(groups, output_signature=types)"
        ".map(shuffled).rebatch(256).prefetch(2)\n"
    )
    return Contest(
        f"a Parquet file, {sizes.rows:,} rows of {COLUMNS} columns, batches of 256",
        [
            Contender("eagerflow", ours + check, "epoch()"),
            Contender("torch", torch + check, "epoch()", "torch"),
            Contender("tensorflow", tensorflow + check, "epoch()", "tensorflow"),
        ],
        {"torch": 1.25, "tensorflow": 1.25},
    )


if __name__ == "__main__":
    options = arguments("Input pipelines: an epoch").parse_args()
    sizes = Sizes(50, 1_000, 100) if options.smallest else Sizes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        make_images(folder / "images", sizes.images)
        make_table(folder / "table.parquet", sizes)
        pipelines = [
            digits,
            pictures(folder / "images", sizes.images),
            tables(folder / "table.parquet", sizes),
        ]
        run("Input pipelines: an epoch", installed(pipelines, options), options)
