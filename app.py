"""Read the Spacefile, put the page up on recorded races, load the model behind it."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import spaces  # before torch: where a GPU is lent for one call at a time, it stands in for CUDA
except ImportError:
    spaces = None

from prometheus_client import CollectorRegistry

from spork_demo.gauges import observe
from spork_demo.host import DeferredHost, Host
from spork_demo.line import Line
from spork_demo.observed import ObservedHost
from spork_demo.server import log_json_lines, routes, serve
from spork_demo.settings import SERVED
from spork_demo.spacefile import Preset, Spacefile, SpacefileError, read_spacefile
from spork_demo.trace_file import TraceError, read_races
from spork_demo.ui.page import build_page, launch_options, queue_options

ROOT = Path(__file__).resolve().parent
CLUSTER_REQUIREMENTS = "spork_demo/deploy/requirements-ray.txt"


def local_host(spacefile: Spacefile) -> Host:
    """The engine on this machine, its default pair loading in the background, and the servers of
    the Spacefile beside it.
    """
    from spork_demo.runtime import LocalHost  # noqa: PLC0415 - torch must not delay the page
    from spork_demo.served.host import ServingHost  # noqa: PLC0415

    host = LocalHost(spacefile)
    host.start()
    return ServingHost(host, spacefile.served, spacefile.limits.seconds_per_run)


def lent_gpu_host(spacefile: Spacefile) -> Host:
    """The engine on a ZeroGPU Space: its weights have to be in place before the page is up."""
    from spork_demo.lent_gpu import LentGpuHost  # noqa: PLC0415
    from spork_demo.served.host import ServingHost  # noqa: PLC0415

    host = LentGpuHost(spacefile, spaces.GPU)
    host.start()
    return ServingHost(host, spacefile.served, spacefile.limits.seconds_per_run)


def tools(spacefile: Spacefile, address: Callable[[], str]) -> Any:
    """The endpoints as tools of the Model Context Protocol. address: where the page is."""
    try:
        from spork_demo.tools import Tools  # noqa: PLC0415 - an optional package
    except ImportError:
        sys.exit(
            "mcp in the Spacefile is true and the package is missing: "
            "pip install -r spork_demo/deploy/requirements-mcp.txt"
        )
    return Tools(address, spacefile.limits, tuple(server.name for server in spacefile.served))


def cluster_host(spacefile: Spacefile) -> Host:
    """Replicas on the cluster of the Spacefile, starting in the background."""
    from spork_demo.cluster.host import ClusterHost  # noqa: PLC0415
    from spork_demo.cluster.ray_pool import RayPool  # noqa: PLC0415
    from spork_demo.served.host import ServingHost  # noqa: PLC0415

    host = ClusterHost(RayPool(spacefile, spacefile.cluster), spacefile.cluster)
    host.start()
    return ServingHost(host, spacefile.served, spacefile.limits.seconds_per_run)


def main() -> None:
    """Serve the page until stopped."""
    log_json_lines()
    try:
        spacefile = read_spacefile(ROOT / "Spacefile")
        recorded = read_races(ROOT / "assets" / "traces")
    except (SpacefileError, TraceError) as error:
        sys.exit(str(error))
    cluster = spacefile.cluster
    if cluster and importlib.util.find_spec(cluster.engine) is None:
        sys.exit(f"The Spacefile chooses {cluster.engine}: install {CLUSTER_REQUIREMENTS}.")
    lent = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    if spaces is not None and lent:
        engine = lent_gpu_host(spacefile)
    else:
        build = cluster_host if cluster else local_host
        engine = DeferredHost(lambda: build(spacefile))
        engine.start()
    registry = CollectorRegistry()
    host = ObservedHost(engine, registry)
    servers = tuple(Preset(server.name, SERVED) for server in spacefile.served)
    line = Line(spacefile.limits.queues, cluster.replicas if cluster else 1)
    page = build_page(host, spacefile.limits, (*spacefile.presets, *servers), recorded, line)
    page.queue(**queue_options(spacefile.limits))
    observe(page, line, registry)
    protocol = tools(spacefile, lambda: page.local_url) if spacefile.mcp else None
    options = launch_options(spacefile.limits, protocol and protocol.lifespan)
    served = routes(host, registry)
    options["app_kwargs"]["routes"] = [*served, protocol.route] if protocol else served
    serve(page, host, options, line)


if __name__ == "__main__":
    main()
