"""Guards: facts about the outside that a trace relies on, and the generated code of checks."""
