"""Task servers: processes whose devices this process uses (see ``docs/cluster.md``)."""

from eagerflow.cluster.clusters import Cluster as Cluster
from eagerflow.cluster.clusters import TaskStatus as TaskStatus
from eagerflow.cluster.clusters import connect as connect
from eagerflow.cluster.clusters import local as local
from eagerflow.cluster.clusters import on_dask as on_dask
from eagerflow.unknown_names import module_dir as _module_dir

__dir__ = _module_dir(globals())
