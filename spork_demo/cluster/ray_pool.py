"""Replicas on Ray: started by Ray Serve, asked through a deployment handle.

The only file that knows Ray. Serve keeps the replicas alive, gives each its GPUs, sends a run to
one that is free and refuses what would wait behind too many others.
"""

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError, RayTaskError, TaskCancelledError
from ray.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError
from ray.serve.schema import LoggingConfig

from spork_demo.cluster.messages import BusyError, Facts, LostError, Request
from spork_demo.cluster.replica import Replica
from spork_demo.cluster_spec import LOCAL, Cluster
from spork_demo.engine import APP_VERSION
from spork_demo.spacefile import Spacefile

logger = logging.getLogger(__name__)

NAME = "spork_demo"
ROOT = Path(__file__).resolve().parents[2]
QUIET = LoggingConfig(log_level="WARNING", enable_access_log=False)
STORE_BYTES = 100_000_000
"""Shared memory of a cluster of one machine: events are small."""

TRIES = 3
"""Times a replica is started that never got ready."""

POLL_SECONDS = 0.2


class _Over:
    """The stream has come to its end."""


class RayPool:
    """The replicas of one deployment of this program on one cluster."""

    def __init__(self, spacefile: Spacefile, cluster: Cluster) -> None:
        self._spacefile = spacefile
        self._cluster = cluster
        limits = spacefile.limits
        self._patience = 2.0 * max(limits.seconds_per_run, limits.sweep_seconds)
        self._handle: Any = None
        self._ours = False
        self._ended = threading.Event()

    def start(self) -> Facts:
        """See `Pool.start`."""
        connected: Future[None] = Future()
        threading.Thread(target=self._keep, args=(connected,), name="ray", daemon=True).start()
        connected.result()
        atexit.register(self.close)  # before Ray's own, which is registered already
        serve.start(proxy_location="Disabled", logging_config=QUIET)
        _log_as_everybody()
        if NAME in serve.status().applications:
            self._handle = serve.get_app_handle(NAME)
        else:
            self._ours = True
            self._handle = serve.run(
                self._application(), name=NAME, route_prefix=None, logging_config=QUIET
            )
        facts = self._handle.facts.remote().result(timeout_s=self._patience)
        if facts.version != APP_VERSION:
            raise RuntimeError(f"The cluster already runs version {facts.version} of this program.")
        return facts

    def stream(self, request: Request, stop: threading.Event | None = None) -> Iterator[Any]:
        """See `Pool.stream`."""
        response = self._handle.options(stream=True).run.remote(request)
        batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
        pulling = threading.Thread(target=_pull, args=(response, batches.put), daemon=True)
        pulling.start()
        over = False
        try:
            while not over:
                batch = self._next(batches, stop)
                over = isinstance(batch, Exception | _Over)
                if isinstance(batch, Exception):
                    raise batch
                if over or batch is None:
                    return
                yield from batch
        finally:
            if not over:
                with contextlib.suppress(RayError, RayServeException, CancelledError):
                    response.cancel()

    def _next(self, batches: "queue.SimpleQueue[Any]", stop: threading.Event | None) -> Any:
        """What comes next; None when told to stop, BusyError when nothing comes for too long."""
        end = time.monotonic() + self._patience
        while stop is None or not stop.is_set():
            try:
                return batches.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if time.monotonic() > end:
                    raise BusyError from None
        return None

    def close(self) -> None:
        """See `Pool.close`."""
        if self._ended.is_set() or not ray.is_initialized():
            return
        try:
            if self._ours and self._cluster.address != LOCAL:
                serve.delete(NAME)
        except Exception:
            logger.exception("the replicas could not be ended")
        ray.shutdown()
        self._ended.set()

    def _keep(self, connected: "Future[None]") -> None:
        """Connect, and stay: a cluster of this machine ends with the thread that started it."""
        try:
            self._connect()
        except BaseException as error:
            connected.set_exception(error)
            return
        connected.set_result(None)
        self._ended.wait()

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {
            "namespace": NAME,
            "log_to_driver": False,
            "configure_logging": False,
            "runtime_env": {"env_vars": {"PYTHONPATH": str(ROOT)}},
        }
        cluster = self._cluster
        if cluster.address == LOCAL:
            options |= {
                "address": "local",
                "num_cpus": cluster.replicas * cluster.cpus,
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
            }
        else:
            options["address"] = cluster.address
        ray.init(**options)

    def _application(self) -> Any:
        cluster = self._cluster
        deployment = serve.deployment(
            Replica,
            name="replica",
            num_replicas=cluster.replicas,
            max_ongoing_requests=1,
            max_queued_requests=cluster.queue,
            max_constructor_retry_count=TRIES,
            ray_actor_options={"num_gpus": cluster.gpus, "num_cpus": cluster.cpus},
        )
        return deployment.bind(self._spacefile, cluster.cpus)


def _log_as_everybody() -> None:
    """Serve's messages in this process go where all others go, in their form."""
    own = logging.getLogger("ray.serve")
    for handler in list(own.handlers):
        own.removeHandler(handler)
    own.propagate = True


def _pull(response: Any, put: Callable[[Any], None]) -> None:
    """Everything a response brings, then how it ended."""
    try:
        for batch in response:
            put(batch)
        put(_Over())
    except (TaskCancelledError, RequestCancelledError, CancelledError):
        put(_Over())
    except BackPressureError:
        put(BusyError())
    except RayTaskError as error:
        put(error)
    except RayError as error:
        put(LostError(type(error).__name__))
    except Exception as error:
        put(error)
