"""Devices of tasks, as this process sees them: values by handle, ops that are issued, steps."""
