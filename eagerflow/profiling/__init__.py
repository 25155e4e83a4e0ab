"""What running costs: ``ef.profile``."""

from eagerflow.profiling.profiles import OpStatistics, Profile, profile

__all__ = ["OpStatistics", "Profile", "profile"]
