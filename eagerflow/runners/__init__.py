"""Runners: functions that run again and again in the background."""

from eagerflow.runners.runner import Runner
from eagerflow.runners.spawn import spawn

__all__ = ["Runner", "spawn"]
