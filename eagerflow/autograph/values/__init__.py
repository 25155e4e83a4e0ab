"""Values in converted code: kinds of values, texts, lists, and updates in place."""
