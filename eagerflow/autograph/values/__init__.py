"""Values in converted code: which of them a graph can choose among, texts, lists, calls."""
