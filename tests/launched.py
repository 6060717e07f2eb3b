"""A page of the app on a port of its own, served as app.py serves it, until the test has ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spork_demo.limits import Limits
from spork_demo.ui.page import build_page, launch_options, queue_options
from tests.sample_race import LIMITS, PRESETS, sample_race


@contextmanager
def launched(
    host: Any, *, limits: Limits = LIMITS, races: Any = None, tools: Any = None, routes: Any = (),
    **built: Any,
) -> Iterator[Any]:  # fmt: skip
    """The page that is served; its address is `page.local_url`.

    tools: makes what serves the Model Context Protocol of a function that tells the address.
    """
    page = build_page(host, limits, PRESETS, races or [sample_race()], **built)
    protocol = tools(lambda: page.local_url) if tools else None
    options = launch_options(limits, protocol and protocol.lifespan)
    options["app_kwargs"]["routes"] = [*routes, protocol.route] if protocol else list(routes)
    page.queue(**queue_options(limits))
    page.launch(prevent_thread_lock=True, quiet=True, **options)
    try:
        yield page
    finally:
        page.close()
