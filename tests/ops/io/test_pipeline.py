"""Figure 2 of the paper: file names, a reader, parsing, a shuffle queue, batches, training.

Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import RecordError
from tests.ops.cases.files import png
from tests.ops.io.conftest import MakeFile

FEATURES = {"image": "bytes[]", "label": "i64[]"}


def pictures(count: int) -> list[tuple[np.ndarray[Any, Any], int]]:
    """Pictures whose class is whether their left half is the brighter one."""
    rng = np.random.default_rng(5)
    examples = []
    for i in range(count):
        pixels = rng.integers(0, 100, (4, 4, 1), dtype=np.uint8)
        half = pixels[:, :2] if i % 2 else pixels[:, 2:]
        half += np.uint8(100)
        examples.append((pixels, i % 2))
    return examples


def written(make_records: MakeFile, count: int, files: int) -> tuple[list[str], Any]:
    """The paths of files of examples; and all their pictures."""
    made = pictures(count)
    records = [
        ef.io.encode_example({"image": png(pixels), "label": label}).item()
        for pixels, label in made
    ]  # fmt: skip
    return [make_records(f"{k}.records", *records[k::files]) for k in range(files)], made


class Pipeline:
    """The queues, the variables and the functions of the pipeline; each may be traced.

    Attributes:
        read: puts the bytes of one record into a queue.
        parse: decodes an example from these bytes and puts it into another queue.
        train: takes a batch from that queue.
    """

    def __init__(self, wrap: Any) -> None:
        self.files = ef.Queue(2, "bytes[]", name="files")
        self.records = ef.Queue(8, "bytes[]", name="records")
        self.examples = ef.Queue(
            32, {"image": "f32[4,4,1]", "label": "i64[]"}, kind="shuffle", min_after_dequeue=8,
            seed=3,
        )  # fmt: skip
        self.reader = ef.io.RecordReader(self.files)
        self.weights = ef.Variable(ef.zeros((16, 2)))
        self.loss = ef.Variable(0.0)
        self.seen = ef.Variable(ef.zeros((), dtype="int64"))
        self.brightness = ef.Variable(0.0, dtype="float64")
        self.read, self.parse, self.train = map(wrap, (self._read, self._parse, self._train))

    def _read(self) -> None:
        self.records.enqueue(self.reader.read()[1])

    def _parse(self) -> None:
        features = ef.io.parse_example(self.records.dequeue(), FEATURES)
        image = ef.io.decode_image(features["image"], channels=1, dtype=ef.float32, size=(4, 4))
        self.examples.enqueue({"image": image, "label": features["label"]})

    def _train(self) -> None:
        batch = self.examples.dequeue_up_to(10)
        x = batch["image"].reshape(-1, 16)

        def loss(weights: Any) -> Any:
            return ef.nn.functional.cross_entropy(x @ weights, batch["label"])

        value, gradient = ef.value_and_grad(loss)(self.weights.value)
        self.weights.assign_sub(0.5 * gradient)
        self.loss.assign(value)
        self.seen.assign_add(ef.tensor(x.shape[0]))
        self.brightness.assign_add((x * 255).astype("float64").sum())

    def run(self, paths: list[str]) -> None:
        """Process all files by runners; a stage's queue is closed when its runners have ended."""
        readers = [ef.spawn(self.read) for _ in range(2)]
        parsers = [ef.spawn(self.parse) for _ in range(3)]
        trainer = ef.spawn(self.train)
        try:
            for path in paths:
                self.files.enqueue(path.encode())
            self.files.close()
            for stage, queue in ((readers, self.records), (parsers, self.examples)):
                for runner in stage:
                    runner.join()
                queue.close()
            trainer.join()
        finally:
            for queue in (self.files, self.records, self.examples):
                queue.close(cancel_pending=True)
            for runner in (*readers, *parsers, trainer):
                runner.stop()


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_the_pipeline_trains(wrap: Any, make_records: MakeFile) -> None:
    paths, made = written(make_records, 120, 5)
    pipeline = Pipeline(wrap)
    pipeline.run(paths * 3)
    assert pipeline.reader.count == 360
    assert int(pipeline.seen) == 360
    total = 3 * sum(int(pixels.sum(dtype=np.int64)) for pixels, _ in made)
    assert round(float(pipeline.brightness)) == pytest.approx(total, rel=1e-6)
    assert float(pipeline.loss) < 0.4  # log(2) = 0.69 without any learning


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_what_is_no_picture_stops_its_runner(wrap: Any, make_records: MakeFile) -> None:
    record = ef.io.encode_example({"image": b"no picture", "label": 0}).item()
    pipeline = Pipeline(wrap)
    pipeline.records.enqueue(record)
    runner = ef.spawn(pipeline.parse)
    with pytest.raises(RecordError, match=r"not a picture of a known .*: b'no picture'") as caught:
        runner.join()
    assert "in Pipeline._parse: image = ef.io.decode_image(" in str(caught.value)


def test_graphs_of_it_have_a_text_and_a_file(tmp_path: Any) -> None:
    pipeline = Pipeline(ef.trace)
    for function in (pipeline.read, pipeline.parse, pipeline.train):
        graph = function.graph()
        assert str(ef.Graph.parse(str(graph))) == str(graph)
        graph.save(tmp_path / "graph")
        assert str(ef.Graph.load(tmp_path / "graph")) == str(graph)
