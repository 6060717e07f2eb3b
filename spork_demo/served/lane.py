"""A served lane's events: what its stream tells of text and time, and its server of acceptance."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spork_demo.language import later
from spork_demo.served.counters import between, tokens_counted
from spork_demo.served.server import Server, request_body
from spork_demo.served.stream import Arrival, End, ServedError, Stream
from spork_demo.settings import Settings
from spork_demo.trace import Event, Finished, Round, Started, StopReason, Token
from spork_demo.trace_served import UNKNOWN_ID, Served

BEAT_SECONDS = 0.1
"""A waiting lane says so this often, so that whoever watches can stop it."""

SENTENCES = {
    "no_key": later("The key of this server is not set on this machine; its deployer can set it."),
    "key": later("The server refused the key it was sent; whoever deployed this page can mend it."),
    "unknown": later("The server does not know the model it was asked for, or the address (404)."),
    "refused": later(
        "The server refused the request: the model, a knob or the prompt does not suit it."
    ),
    "busy": later("The server is busy or not ready; try again in a moment."),
    "status": later("The server answered with status {status} instead of a text."),
    "unreachable": later("The server could not be reached."),
    "silent": later("The server fell silent, so this lane was ended; its text so far is kept."),
    "slow": later("The server took longer than a run may take here; its text so far is kept."),
    "malformed": later("The server sent something that is not a stream of text."),
    "inside": later("The server reported an error of its own; the text so far is kept."),
    "huge": later("The server sent more than it was asked for, so this lane was ended."),
    "broken": later("The connection ended before the text did; the text so far is kept."),
    "unexpected": later("This lane met an unexpected error; its text so far is kept."),
}
OTHER_END = later("The server ended the text for a reason of its own.")


@dataclass(frozen=True, slots=True)
class ServedLane:
    """One run on one server, `seconds` long at most. Its rounds are arrivals: what came together,
    and when. comparable: see `Served`.

    The first arrival ends the time to the first token and takes no seconds of its own.
    """

    server: Server
    prompt: str
    settings: Settings
    seconds: float
    comparable: bool = False

    def events(self) -> Iterator[Event]:
        """Closing the iterator closes the connection."""
        facts = Served(self.server.name, self.server.model, self.comparable)
        body = request_body(self.server, self.prompt, self.settings)
        stream = Stream(self.server, body, self.seconds)
        tally = _Tally(facts)
        try:
            while True:
                item = stream.next(BEAT_SECONDS)
                if item is None:
                    yield facts
                elif isinstance(item, Arrival):
                    yield from tally.take(item)
                else:
                    yield from tally.close(item)
                    return
        except ServedError as error:
            values = {"status": error.status} if error.kind == "status" else {}
            yield from tally.fail(later(SENTENCES[error.kind], **values))
        finally:
            stream.close()


class _Tally:
    """Arrivals to rounds: how many tokens each held, as far as the server says."""

    def __init__(self, facts: Served) -> None:
        self._facts = facts
        self._rounds = 0
        self._counted = 0
        self._total: int | None = None
        self._with_text = 0
        self._with_count = 0
        self._clock = 0.0
        self._held = ""
        self._finish = ""

    def take(self, arrival: Arrival) -> Iterator[Event]:
        """The round an arrival makes, if it brought text or tokens."""
        self._finish = self._finish or arrival.finish
        self._with_text += bool(arrival.text)
        if arrival.tokens is not None:
            self._total = max(arrival.tokens, self._total or 0)
            self._with_count += bool(arrival.text)
        tokens = self._grown(arrival)
        text = self._held + arrival.text
        if not tokens:  # text the count has not reached yet waits for its tokens
            self._held = text
            return
        self._held = ""
        if not self._rounds:
            yield Started(arrival.prompt_tokens or 0, arrival.seconds)
            self._clock = arrival.seconds
        yield _round(self._rounds, tokens, text, arrival.seconds - self._clock)
        self._rounds += 1
        self._clock = arrival.seconds

    def _grown(self, arrival: Arrival) -> int:
        """Tokens this arrival adds: by the server's count where it counts along, else pieces."""
        added = arrival.pieces
        if arrival.tokens is not None and self._counts_along:
            added = max(0, arrival.tokens - self._counted)
        self._counted += added
        return added

    @property
    def _counts_along(self) -> bool:
        """Whether every arrival with text so far came with a count."""
        return self._with_count == self._with_text

    def close(self, end: End) -> Iterator[Event]:
        yield self._known(end)
        yield Finished(*self._ending())

    def fail(self, sentence: str) -> Iterator[Event]:
        yield self._known(End())
        yield Finished("failed", self._held, sentence)

    def _ending(self) -> tuple[StopReason, str, str]:
        if self._finish in ("stop", "length"):
            return ("eos" if self._finish == "stop" else "length"), self._held, ""
        return "stopped", self._held, OTHER_END

    def _known(self, end: End) -> Served:
        along = self._counts_along and self._with_text > 0
        counted = "pieces" if self._total is None else "chunk" if along else "total"
        facts = replace(self._facts, counted=counted, tokens=self._total)
        if end.before is None or end.after is None:
            return facts
        found = between(end.before, end.after)
        if found is None:
            return facts
        wrote = tokens_counted(end.before, end.after)
        alone = None if wrote is None or self._total is None else wrote == self._total
        return replace(
            facts,
            counters=found.whose,
            rounds=found.rounds,
            drafted=found.drafted,
            accepted=found.accepted,
            kept=found.kept,
            alone=alone,
        )


def _round(index: int, tokens: int, text: str, seconds: float) -> Round:
    """An arrival of so many tokens. Which of them wrote which letters is not known, so the last
    carries the whole text, as it does where bytes of a character come in parts.
    """
    committed = (
        *(Token(UNKNOWN_ID, "", "served") for _ in range(tokens - 1)),
        Token(UNKNOWN_ID, text, "served"),
    )
    return Round(index, (), committed, 0, 0, 0, 0, 0, max(0.0, seconds), 0.0, 0.0, 0.0)
