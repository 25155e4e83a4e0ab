"""The state machines of servers and clients of a cluster, without sockets."""
