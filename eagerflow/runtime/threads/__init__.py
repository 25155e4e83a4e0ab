"""Threads, timers and deadlines of the runtime."""
