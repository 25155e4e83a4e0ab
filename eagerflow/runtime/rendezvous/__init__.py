"""The rendezvous of values from one partition of a graph with their receivers in another."""
