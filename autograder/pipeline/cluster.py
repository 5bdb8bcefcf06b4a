"""Workers on a Dask cluster, or Dask workers on this machine, as an executor for `grade`.

A worker gets canonical notebooks and the seeds of their inputs, never the secret that these come from, and gives back
records. It makes its own sandbox, so it needs what grading needs here: the course, installed from the same commit, and
Linux with user namespaces.
"""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from autograder.pipeline.grading import GradingError, course_fingerprint

LOCAL = "local"
# Of a Dask worker itself: torch, and the judging of one notebook. Its sandbox comes on top: torch, and what `Limits` allow.
WORKER_MEMORY = "2GiB"
PATIENCE = 30  # seconds for a scheduler to answer, and for its first worker


@contextmanager
def dask_executor(address: str, workers: int | None = None) -> Iterator[Executor]:
    """An executor whose tasks run on Dask workers.

    Args:
        address: of a running scheduler ("tcp://host:8786"), or "local" for workers started here.
        workers: how many of them to start here (default: one a core); a cluster has the workers it has.

    Raises:
        GradingError: where dask.distributed is missing, nobody answers, or the workers have another version of the course.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise GradingError("--dask needs the package distributed: pip install distributed") from None
    logging.getLogger("distributed").setLevel(logging.ERROR)  # what goes wrong is said in one line, here
    if address == LOCAL:
        with LocalCluster(
            n_workers=workers or os.cpu_count() or 1, threads_per_worker=1, memory_limit=WORKER_MEMORY,
            dashboard_address=None,
        ) as cluster, Client(cluster) as client:  # fmt: skip
            yield client.get_executor(pure=False)
        return
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as problem:
        raise GradingError(f"no Dask scheduler answers at {address} ({type(problem).__name__})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise GradingError(f"the Dask scheduler at {address} has no workers") from None
        try:
            versions = set(client.run(course_fingerprint).values())
        except Exception as problem:  # whatever keeps a worker from importing the course
            raise GradingError(
                f"a Dask worker cannot load the course ({type(problem).__name__}: {problem}): install it there too"
            ) from None
        if versions != {course_fingerprint()}:
            raise GradingError("the Dask workers have another version of the course: install the same commit there")
        yield client.get_executor(pure=False)
