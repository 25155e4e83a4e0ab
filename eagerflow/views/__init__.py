"""Views of functions, graphs, queues and the like: text everywhere, pictures in notebooks."""

from eagerflow.views.dashboard import Dashboard, dashboard
from eagerflow.views.magics import load_ipython_extension
from eagerflow.views.show import show
from eagerflow.views.view import View

__all__ = ["Dashboard", "View", "dashboard", "load_ipython_extension", "show"]
