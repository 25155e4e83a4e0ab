"""Lookup of the trace that a call of a traced function runs, in its cache or made anew."""
