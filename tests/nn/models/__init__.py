"""Networks as users write them, with public names only, trained on real tasks."""
