"""Input pipelines: `Dataset`, from tensors, files or any iterable to shuffled batches.

>>> images, labels = ef.random.normal((5, 8, 8)), ef.arange(5)
>>> dataset = ef.data.Dataset.from_tensors((images, labels)).shuffle(seed=0).batch(2)
>>> for batch_images, batch_labels in dataset:
...     print(batch_images.shape, batch_labels.shape)
(2, 8, 8) (2,)
(2, 8, 8) (2,)
(1, 8, 8) (1,)
"""

from eagerflow.data.dataset import Dataset
from eagerflow.data.iterator import DatasetIterator
from eagerflow.data.sources.files import write_records
from eagerflow.data.sources.images import decode_image
from eagerflow.extending import module_dir as _module_dir
from eagerflow.extending import module_getattr as _module_getattr

__all__ = ["Dataset", "DatasetIterator", "decode_image", "write_records"]

__getattr__ = _module_getattr("eagerflow.data", globals())
__dir__ = _module_dir(globals())
