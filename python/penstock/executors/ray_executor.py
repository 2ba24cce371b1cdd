"""An executor of `concurrent.futures` on Ray, which has none of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from penstock.base.missing_package import require


class RayExecutor(Executor):
    """Runs calls as tasks of Ray, on the cluster that `ray.init` joined.

    Parameters
    ----------
    **options
        Options of the tasks, as of ``ray.remote``: ``num_cpus``, ``num_gpus``, ``memory``,
        ``scheduling_strategy="SPREAD"``, ``max_retries``, …

    Raises
    ------
    MissingPackage
        Ray is not installed.
    """

    def __init__(self, **options: Any) -> None:
        require("ray")
        self._options = options
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task, and return its future, whose `cancel` also interrupts a task that runs."""
        import ray

        if fn not in self._remote:
            remote = ray.remote(fn)
            self._remote[fn] = remote.options(**self._options) if self._options else remote
        task = self._remote[fn].remote(*args, **kwargs)
        future: Future[Any] = task.future()

        def cancel() -> bool:
            ray.cancel(task)
            return True

        future.cancel = cancel  # type: ignore[method-assign]
        return future
