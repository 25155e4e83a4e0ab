"""What servers and clients of a cluster know and decide: state machines without sockets."""
