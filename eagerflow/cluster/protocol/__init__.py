"""The wire protocol of a cluster: typed messages with limits, which carry no code."""
