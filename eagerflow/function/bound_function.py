"""`BoundFunction`: a traced function as a method of an instance."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, final

from eagerflow.errors import hide_frames
from eagerflow.graph.ir import Graph

if TYPE_CHECKING:
    from eagerflow.function.traced_function import TracedFunction

_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)


@final
class BoundFunction(Generic[_P, _R_co]):
    """A traced function as a method of an instance.

    Attributes:
        __func__: the traced function.
        __self__: the instance.
    """

    def __init__(self, function: TracedFunction[..., _R_co], instance: object) -> None:
        self.__func__ = function
        self.__self__ = instance
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co:
        try:
            return self.__func__(self.__self__, *args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    def graph(self, *args: _P.args, **kwargs: _P.kwargs) -> Graph:
        """See `TracedFunction.graph`."""
        return self.__func__.graph(self.__self__, *args, **kwargs)

    def abstract(self, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """See `TracedFunction.abstract`."""
        return self.__func__.abstract(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<method of {self.__func__!r}>"
