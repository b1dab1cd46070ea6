"""The joblib backend `pyroclast`. The import of this module registers it. Each batch of joblib runs in a pod."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin
from joblib.parallel import ParallelBackendBase

from pyroclast_client.executors import Executor

MOST_PODS: Final = 100  # at the same time, for `n_jobs=-1`


class PyroclastBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types here
    """Runs batches with `Executor`: `parallel_config("pyroclast", n_jobs=10, cpu=1, image="registry.example/lab:1")`.

    As with loky, batches grow until they take long enough for a pod, and parallel calls in a batch use threads of its pod.

    Args:
        nesting_level: joblib's nesting level of the backend.
        options: options of `task`.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1
    MIN_IDEAL_BATCH_DURATION = 10.0
    MAX_IDEAL_BATCH_DURATION = 120.0

    def __init__(self, nesting_level: int | None = None, **options: Any) -> None:  # noqa: ANN401 - the options of `task`
        super().__init__(nesting_level=nesting_level)
        self._options = options
        self._executor: Executor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the most pods that may run at the same time."""
        if n_jobs == 0:
            raise ValueError("n_jobs: 0 is no number of pods; give 1 or more, or -1")
        return MOST_PODS if n_jobs is None or n_jobs < 0 else n_jobs

    def start_call(self) -> None:
        """Create the executor."""
        self._executor = Executor(**self._options)

    def stop_call(self) -> None:
        """Accept no more batches."""
        self._end(cancel=False)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Future[Any]:
        """Run a batch. Return the future of its results."""
        if self._executor is None:
            raise RuntimeError("a call of joblib must have begun")
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:  # noqa: ANN401 - what the functions return
        """Return the results of a batch, or raise the exception of a call in it."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Delete the Jobs, because a call has failed."""
        self._end(cancel=True)
        if ensure_ready:
            self.start_call()

    def _end(self, *, cancel: bool) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=cancel)


register_parallel_backend("pyroclast", PyroclastBackend)
