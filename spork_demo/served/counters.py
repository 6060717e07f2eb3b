"""What a server counted of its own drafting, read from its Prometheus page before and after a run.

Names and their meanings are those of the packages vllm 0.33.0 (v1/spec_decode/metrics.py and
v1/metrics/loggers.py) and sglang 0.5.23 (srt/observability/metrics_collector.py). SGLang's
acceptance gauges are of its latest batch, whosever that was, so only its counters are read.
"""

import math
import re
from dataclasses import dataclass

SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>[^\s]+)(?:\s+-?\d+)?",
    re.ASCII,
)
POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,3})"')

VLLM_DRAFTS = "vllm:spec_decode_num_drafts_total"
VLLM_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
VLLM_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
VLLM_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
VLLM_TOKENS = "vllm:generation_tokens_total"
SGLANG_CHECKS = "sglang:spec_verify_calls_total"
SGLANG_TOKENS = "sglang:generation_tokens_total"
NAMES = frozenset(
    (VLLM_DRAFTS, VLLM_DRAFTED, VLLM_ACCEPTED, VLLM_POSITIONS, VLLM_TOKENS)
    + (SGLANG_CHECKS, SGLANG_TOKENS)
)

Reading = dict[tuple[str, int], float]
"""Counter and draft position (-1 where it has none) to value, summed over engines."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened between two readings; None where the server does not count it."""

    whose: str
    rounds: int
    tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    kept: tuple[int, ...] = ()


def read_page(text: str) -> Reading:
    """The counters of a Prometheus page that are of use here; other lines are passed over."""
    found: Reading = {}
    for line in text.splitlines():
        match = SAMPLE.fullmatch(line.strip())
        if match is None or match["name"] not in NAMES:
            continue
        position = POSITION.search(match["labels"] or "")
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if not math.isfinite(value) or value < 0:
            continue
        place = (match["name"], int(position[1]) if position else -1)
        found[place] = found.get(place, 0.0) + value
    return found


def between(before: Reading, after: Reading) -> Counts | None:
    """What was counted from one reading to the next; None where nothing was drafted, or where a
    counter went back because the server was started anew.
    """
    grown = {place: round(value - before.get(place, 0.0)) for place, value in after.items()}
    if any(value < 0 for value in grown.values()):
        return None

    def count(name: str) -> int | None:
        return grown.get((name, -1))

    if count(VLLM_DRAFTS):
        positions = sorted(place for name, place in grown if name == VLLM_POSITIONS and place >= 0)
        kept = [grown[(VLLM_POSITIONS, place)] for place in positions]
        while kept and not kept[-1]:
            kept.pop()
        return Counts(
            "vllm",
            count(VLLM_DRAFTS) or 0,
            count(VLLM_TOKENS),
            count(VLLM_DRAFTED),
            count(VLLM_ACCEPTED),
            tuple(kept),
        )
    if count(SGLANG_CHECKS):
        return Counts("sglang", count(SGLANG_CHECKS) or 0, count(SGLANG_TOKENS))
    return None


def tokens_counted(before: Reading, after: Reading) -> int | None:
    """Tokens the server wrote in between, for whomever; None where it does not say."""
    for name in (VLLM_TOKENS, SGLANG_TOKENS):
        if (name, -1) in after:
            return round(after[(name, -1)] - before.get((name, -1), 0.0))
    return None
