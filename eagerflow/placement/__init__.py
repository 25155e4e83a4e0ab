"""Placement: where the nodes of a graph run, and the graph of each device.

- `homes`: at which device each node of a lowered graph is, and which nodes may be copied;
- `demand`: what each partition needs besides its own nodes, and so what is sent;
- `cut`: the partitions, made.
"""
