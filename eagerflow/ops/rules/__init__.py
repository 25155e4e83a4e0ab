"""Helpers of all families of ops: type rules, promotion, arguments, sizes, gradients."""
