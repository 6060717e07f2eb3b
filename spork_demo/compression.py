"""Pages and answers leave the server compressed; streams of events and files do not.

Nothing secret is on a page or in an answer that could be guessed from its compressed size.
"""

from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

LEAST_BYTES = 1400
"""What fits a packet is not worth the work."""

LEVEL = 5
"""A third of the time of the densest level, for a page 4 % larger."""

LEFT_ALONE = (
    *DEFAULT_EXCLUDED_CONTENT_TYPES,  # streams of events among them
    "application/octet-stream",
    "font/*",
    "image/*",
    "text/css",  # Gradio compresses its scripts and sheets itself
    "text/javascript",
    "application/javascript",
)


def compression() -> Middleware:
    """For launch(app_kwargs={"middleware": [...]})."""
    return Middleware(
        GZipMiddleware,
        minimum_size=LEAST_BYTES,
        compresslevel=LEVEL,
        exclude_content_types=LEFT_ALONE,
    )
