"""Short pieces of HTML around sentences: the status strip and the notice. Text is escaped here."""

from html import escape

from spork_demo.host import Status
from spork_demo.language import known, say
from spork_demo.ui import words

MEGABYTE = 1_000_000


def notice(text: str, kind: str = "info") -> str:
    """One sentence for the visitor. kind: info, waiting, refused, done."""
    return f'<p class="notice notice-{kind}" role="status">{escape(text)}</p>' if text else ""


def headed(title: str, text: str) -> str:
    """A paragraph under a small heading."""
    return f'<div class="headed"><h3>{escape(title)}</h3><p>{escape(text)}</p></div>'


def status_strip(status: Status, about: str = "") -> str:
    """How far the model is, with a bar while bytes arrive, and what its drafters learned from."""
    kind = "ready" if status.ready else "failed" if status.failed else "loading"
    text = escape(known(status.message))
    learned = f'<span class="host-learned">{escape(about)}</span>' if about else ""
    return f'<div class="host-status host-{kind}"><span>{text}</span>{_bar(status)}{learned}</div>'


def _bar(status: Status) -> str:
    if status.ready or status.failed or status.total_bytes <= 0:
        return ""
    done = min(status.done_bytes, status.total_bytes)
    size = say(
        "{done} of {total} MB",
        done=f"{done / MEGABYTE:.0f}",
        total=f"{status.total_bytes / MEGABYTE:.0f}",
    )
    share = f'max="{status.total_bytes}" value="{done}"'
    label = escape(say("download"))
    return f'<progress {share} aria-label="{label}"></progress><span>{size}</span>'


def why_not(status: Status) -> str:
    """Why a live run cannot start now; empty when it can."""
    if status.ready:
        return ""
    template = words.NO_MODEL if status.failed else words.NOT_READY
    return say(template, message=known(status.message))
