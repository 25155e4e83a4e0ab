"""Devices of tasks, as the client sees them: values by handle, issued ops, steps."""
