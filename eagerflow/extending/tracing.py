"""The API for libraries of layers and optimisers: walks over parts by path, and their traces."""

# public names come first: they load all that is imported below, at once and in one thread
from eagerflow import trace as _trace  # noqa: F401 - for what its import does
from eagerflow.autograph.calls_in_graphs import call_in_scope, in_graph
from eagerflow.capture.modules.walk import children, walk
from eagerflow.capture.modules.walk_assumptions import note_set, note_walk
from eagerflow.capture.undoing import undo_by

__all__ = ["call_in_scope", "children", "in_graph", "note_set", "note_walk", "undo_by", "walk"]
