"""Text to token ids and back: prompts no visitor can forge turns in, replies that stream whole
characters.

Byte-level tokenizers (GPT-2, Llama 3, Qwen, SmolLM) are decoded byte by byte and exactly; others
by comparing decodings, held back for a few tokens at most.
"""

import codecs
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import decoders
from transformers import PreTrainedTokenizerBase

from spork_demo.language import say

PLACEHOLDER = "PUTTHEWORDSOFTHEVISITORHERE"
"""Stands for the visitor's text while the template is taken apart."""

HELD_TOKENS = 3
"""An unfinished UTF-8 character is at most three bytes, hence at most three tokens."""

REPLACEMENT = "\ufffd"


class Codec:
    """One tokenizer's way between text and ids. Safe to share between threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, special_ids: frozenset[int]):
        self._tokenizer = tokenizer
        self.special_ids = special_ids
        self._pieces: dict[int, str] = {}
        self._lock = threading.Lock()  # whether specials are parsed is state of the tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self.byte_level = isinstance(getattr(backend, "decoder", None), decoders.ByteLevel)
        self._template = self._read_template() if tokenizer.chat_template else None

    def encode_prompt(self, text: str, raw: bool = False, limit: int | None = None) -> list[int]:
        """Token ids of `text` as the user's turn with the assistant's turn opened, or of the bare
        text when `raw` or when the model has no chat template.

        Control tokens spelled in `text` become ordinary text. Raises ValueError with a sentence
        when the text is blank or takes more than `limit` tokens.
        """
        if not text.strip():
            raise ValueError(say("The prompt is empty."))
        text = text.encode("utf-8", "replace").decode()  # lone surrogates have no bytes
        with self._lock:
            ids = self._encode_raw(text) if raw or not self._template else self._encode_turn(text)
        if limit is not None and len(ids) > limit:
            raise ValueError(
                say(
                    "The prompt takes {count} tokens; the limit is {limit}. Shorten it.",
                    count=len(ids),
                    limit=limit,
                )
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The visible text of `ids`, control tokens left out."""
        return self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def piece(self, token_id: int) -> str:
        """One token as shown on its own: its text, its name if it is a control token, and
        bytes that are only part of a character in the form ⟨E4 BD⟩. The same string each time:
        races are full of them.
        """
        piece = self._pieces.get(token_id)
        if piece is None:
            self._pieces[token_id] = piece = self._piece(token_id)
        return piece

    def _piece(self, token_id: int) -> str:
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"⟨{token_id}⟩"
        if token_id in self.special_ids:
            return token
        if self.byte_level:
            return _readable(byte_level_bytes(token))
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return _readable(bytes.fromhex(token[3:5]))
        return token.replace("▁", " ")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a byte-level token stands for; none for ids outside the vocabulary."""
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        return b"" if token is None else byte_level_bytes(token)

    def turn_head(self) -> list[int]:
        """What the chat template puts before the user's text. Raises ValueError without one."""
        if self._template is None:
            raise ValueError("This model has no chat template.")
        return self._encode_part(self._template.head, split=False)

    def _encode_raw(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, split_special_tokens=True)

    def _encode_turn(self, text: str) -> list[int]:
        template = self._template
        ids = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        if [i for i in ids if i in template.controls] == template.control_order:
            return ids
        # The text spells control tokens: parse them in the template only.
        ids = self._encode_part(template.head, split=False)
        for part in template.cuts.split(text) if template.cuts else [text]:
            ids += self._encode_part(part, split=True)
        return ids + self._encode_part(template.tail, split=False)

    def _encode_part(self, text: str, split: bool) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=split)

    def _read_template(self) -> "_Template":
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": PLACEHOLDER}], add_generation_prompt=True, tokenize=False
        )
        head, placeholder, tail = text.partition(PLACEHOLDER)
        if not placeholder or PLACEHOLDER in tail:
            raise ValueError("This model's chat template does not hold the user's text once.")
        ids = self._encode_part(text, split=False)
        added = self._tokenizer.added_tokens_decoder
        controls = self.special_ids | {i for i in ids if i in added}
        # Some tokenizers do not mark their turn markers as special, and so would not split them.
        unmarked = [added[i].content for i in sorted(controls - self.special_ids)]
        inside = [f"(?<={re.escape(t[0])})(?={re.escape(t[1:])})" for t in unmarked if t[1:]]
        return _Template(
            head=head,
            tail=tail,
            controls=controls,
            control_order=[i for i in ids if i in controls],
            cuts=re.compile("|".join(inside)) if inside else None,
        )


@dataclass(frozen=True, slots=True)
class _Template:
    """A chat template taken apart around the visitor's text.

    control_order: the control ids of the whole template, in order; a text that adds none leaves
        them as they are.
    cuts: where to cut a text so that no unmarked control token is found in it.
    """

    head: str
    tail: str
    controls: frozenset[int]
    control_order: list[int]
    cuts: re.Pattern[str] | None


class Stream:
    """Turns the ids of one reply into text as they arrive.

    What `push` and `flush` return, joined, is `Codec.decode` of all ids; no character is shown
    before it is complete, and a genuine U+FFFD holds nothing back.
    """

    def __init__(self, codec: Codec):
        self._codec = codec
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._context: list[int] = []  # ids already shown, kept for the spaces they imply
        self._held: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty for control tokens and partial characters."""
        if token_id in self._codec.special_ids:
            return ""
        if self._codec.byte_level:
            return self._utf8.decode(self._codec.token_bytes(token_id))
        self._held.append(token_id)
        text = self._new_text()
        if text.endswith(REPLACEMENT) and len(self._held) <= HELD_TOKENS:
            return ""
        self._context, self._held = self._held, []
        return text

    def flush(self) -> str:
        """What is still held back, at the end of the reply."""
        text = self._utf8.decode(b"", final=True) + self._new_text()
        self._context, self._held = [*self._context, *self._held], []
        return text

    def _new_text(self) -> str:
        if not self._held:
            return ""
        before = self._codec.decode(self._context)
        return self._codec.decode([*self._context, *self._held])[len(before) :]


def byte_level_bytes(token: str) -> bytes:
    """The bytes behind a byte-level token's printable alphabet.

    A token with a character outside that alphabet (an added one) stands for itself.
    """
    try:
        return bytes(_BYTE_OF[character] for character in token)
    except KeyError:
        return token.encode()


def _byte_alphabet() -> dict[str, int]:
    # GPT-2's table: printable Latin-1 bytes stand for themselves, the rest count up from U+0100.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _readable(raw: bytes) -> str:
    shown, broken = "", b""
    while raw:
        try:
            good, bad = raw.decode(), b""
        except UnicodeDecodeError as error:
            good, bad = raw[: error.start].decode(), raw[error.start : error.end]
        if good and broken:
            shown, broken = shown + _hex(broken), b""
        shown, broken = shown + good, broken + bad
        raw = raw[len(good.encode()) + len(bad) :]
    return shown + _hex(broken)


def _hex(raw: bytes) -> str:
    return f"⟨{raw.hex(' ').upper()}⟩" if raw else ""
