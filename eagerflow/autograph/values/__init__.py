"""Values in converted code: kinds that a graph can choose among, texts, lists, calls."""
