"""Runners: functions that run again and again in the background."""

from eagerflow.runners.runner import Runner, spawn

__all__ = ["Runner", "spawn"]
