"""What the stages of a pipeline share."""
