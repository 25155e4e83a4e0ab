"""Base classes and helpers of the stages of a pipeline."""
