"""Python state outside a traced function: reads, guards, side effects, and their undoing."""
