"""``eagerflow demo``: classifiers of handwritten digits. `digits` is an example to read."""

from eagerflow.demo.report import main as main
