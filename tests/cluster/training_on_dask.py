"""Training on a Dask cluster of which a worker is killed: a program, as Dask leaves threads behind.

Run: ``python -m tests.cluster.training_on_dask FOLDER``.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import distributed

import eagerflow as ef
from eagerflow.errors import ClusterWarning, TaskLost


def training(dask: Any, folder: Path) -> None:
    with ef.cluster.on_dask(dask, {"ps": 1, "worker": 2}) as cluster:
        print(cluster)
        w = ef.Variable([0.0], device="ps:0", name="w")

        @ef.trace
        def step(x: ef.Tensor) -> ef.Tensor:
            gradients = []
            for i in range(2):
                with ef.device(f"worker:{i}"):
                    gradients.append(2 * (w - x))
            with ef.device("ps:0"):
                total = gradients[0].to("ps:0") + gradients[1].to("ps:0")
                w.assign_sub(0.1 * total)
            return total

        target = ef.tensor([3.0])
        for _ in range(5):
            step(target)
        saved = w.numpy()
        ef.checkpoint.save(folder / "state", {"w": w})
        provisioner: Any = cluster._provisioner
        worker = provisioner._workers["ps:0"]
        os.kill(dask.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
        try:
            while True:
                step(target)
        except TaskLost as error:
            print(error.wrong.partition(":")[0], "0 is lost")
        end = monotonic() + 120
        while cluster.tasks["ps:0"].health != "ready" and monotonic() < end:
            sleep(0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ef.checkpoint.load(folder / "state", {"w": w})
            step(target)
        print(*[str(one.message) for one in caught if one.category is ClusterWarning])
        ef.checkpoint.load(folder / "state", {"w": w})
        assert w.numpy() == saved
        for _ in range(30):
            step(target)
        print(f"{w.item():.3f}", cluster.logs("ps:0").count("listens"))


def main() -> None:
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as local,
        distributed.Client(local) as client,
    ):
        training(client, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
