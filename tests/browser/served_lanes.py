"""Three servers on loopback for the fake page: one works, one stalls, one is down."""

import contextlib
from collections.abc import Sequence

from spork_demo.host import Host
from spork_demo.served.host import ServingHost
from spork_demo.served.server import Server
from spork_demo.spacefile import Preset
from tests.sample_race import LIMITS, WORDS
from tests.served_server import Script, serving

SERVERS = ("Busy & quick", "Fallen silent", "Not there")
PRESETS = tuple(Preset(name, "served") for name in SERVERS)
SIZES = (1, 3, 2, 4, 1, 5)
"""Tokens a chunk, over and over."""


def served_chunks(texts: Sequence[str]) -> list[tuple[int, str]]:
    """Sixty tokens of the sample text, one word changed, in chunks; or `texts`, a token each."""
    if texts:
        return [(1, text) for text in texts]
    words = [*WORDS[:20], " subtracts", *WORDS[21:60]]
    chunks = []
    while words:
        size = SIZES[len(chunks) % len(SIZES)]
        chunks.append((len(words[:size]), "".join(words[:size])))
        words = words[size:]
    return chunks


def with_servers(host: Host, stack: contextlib.ExitStack, texts: Sequence[str]) -> Host:
    """`host` with the three servers beside it, which run until `stack` closes."""
    quick = stack.enter_context(serving(Script(chunks=served_chunks(texts), gap=0.05)))
    slow = stack.enter_context(serving(Script(hold=600, page="")))
    with serving(Script()) as gone:
        pass
    places = dict(zip(SERVERS, (quick, slow, gone), strict=True))
    servers = [
        Server(name, f"{place}/v1", "tiny", f"{place}/metrics", about="scripted, on loopback")
        for name, place in places.items()
    ]
    return ServingHost(host, servers, LIMITS.seconds_per_run)
