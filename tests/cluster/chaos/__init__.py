"""Task servers under chaos: killed, stopped, cut off and slowed down, while clients train."""
