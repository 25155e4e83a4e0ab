"""``eagerflow demo``: classifiers of handwritten digits. Read `digits`, it is an example."""

from eagerflow.demo.report import main as main
