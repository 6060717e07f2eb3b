"""Whether what a visitor asks for can run: read, checked, and the machine asked."""

from collections.abc import Callable
from typing import Any, TypeVar

from spork_demo.host import Host
from spork_demo.language import known, say
from spork_demo.settings import SettingsError
from spork_demo.ui import words
from spork_demo.ui.entry import EntryError
from spork_demo.ui.notices import why_not

T = TypeVar("T")


def planned(read: Callable[[], T], host: Host, pair: Any = "") -> tuple[T | None, str]:
    """What `read` makes of a request, or None and why it cannot run on `host` now.

    pair: name of the model pair that is asked for, in whatever form it came; blank: the default.
    """
    try:
        plan = read()
    except (EntryError, SettingsError) as error:
        return None, known(str(error))
    refusal = not_now(host, pair)
    return (None, refusal) if refusal else (plan, "")


def not_now(host: Host, pair: Any = "") -> str:
    """Why nothing can run on that pair now; empty when it can."""
    if refusal := why_not(host.status()):
        return refusal
    names = [each.name for each in host.pairs()]  # a list: `pair` may be what no set can hold
    return say(words.UNKNOWN_PAIR) if pair and pair not in names else ""
