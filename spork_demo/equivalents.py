"""A setting as other programs take it: flags for vLLM, a call for transformers, and what is lost.

Checked against the documentation of vLLM 0.30 and the source of transformers 5.24. Both draft one
chain at a time with these drafters; what has no counterpart is said, never approximated in silence.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spork_demo.language import later, say
from spork_demo.settings import Settings
from spork_demo.trace import Provenance

VLLM, TRANSFORMERS = "vLLM", "transformers"

NO_ARTICLE = later(
    "{program} has no rule that only approximates the target's output, so article rules have no "
    "counterpart there."
)
NO_DRAFTER = later("{program} has no drafter like this one.")
NO_TREES = later(
    "{program} has no SPORK forks: it drafts one chain a round. This is the nearest chain, as long "
    "as a fork; its speed was not measured here."
)
NO_COUNTS = later(
    "It looks up only the prompt and the text so far, and continues where it finds a match; the "
    "drafter here weighs counts and may also know text its target wrote before, so the speed will "
    "differ."
)
NO_POLICY = later("Its drafts keep their length: there is no adaptive policy.")
DSPARK_BLOCK = later(
    "vLLM expects the draft length its DSpark checkpoint was trained with, and its scheduler "
    "weighs costs of its own."
)
NO_MERGE = later("The counts that are merged with the drafter here have no counterpart there.")
KEPT_BY_DRAFT = later(
    "transformers reads the draft length from the draft model's own generation config; without the "
    "confidence of 0 it would stop drafting early."
)
UNTRAINED = later(
    "The layers are used as they are: transformers means this for models trained to exit early."
)


@dataclass(frozen=True, slots=True)
class Equivalent:
    """How another program is told to do the same. text: empty where it cannot. notes: sentences."""

    program: str
    text: str
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        return {"program": self.program, "text": self.text, "notes": list(self.notes)}


def equivalents(settings: Settings, provenance: Provenance) -> tuple[Equivalent, Equivalent]:
    """For settings without `auto`, as a lane ran with them."""
    return _vllm(settings, provenance), _transformers(settings, provenance)


def _vllm(settings: Settings, provenance: Provenance) -> Equivalent:
    length = _chain_length(settings)
    config: dict[str, Any] = {}
    if settings.drafter == "ngram":
        reach = max(1, settings.ngram_order - 1)
        config = {"method": "ngram", "num_speculative_tokens": length}
        config |= {"prompt_lookup_min": 1, "prompt_lookup_max": reach}
    elif settings.drafter == "draft_model":
        config = {"method": "draft_model", "model": provenance.draft}
        config["num_speculative_tokens"] = length
    elif settings.drafter == "dspark" or (
        settings.drafter == "merged" and settings.method == "dspark"
    ):
        config = {"method": "dspark", "model": provenance.dspark, "num_speculative_tokens": length}
        if settings.method == "dspark":
            config["enable_adaptive_verification"] = settings.schedule == "hardware"
    text = ""
    if config and settings.exact:
        text = f"vllm serve {shlex.quote(provenance.target or 'TARGET')} --speculative-config "
        text += shlex.quote(json.dumps(config, ensure_ascii=False))
    return _equivalent(VLLM, settings, text)


def _transformers(settings: Settings, provenance: Provenance) -> Equivalent:
    length, keys = _chain_length(settings), _sampling(settings)
    drafting = {"num_assistant_tokens": length, "num_assistant_tokens_schedule": "constant"}
    drafting["assistant_confidence_threshold"] = 0
    text = ""
    if settings.drafter == "ngram":
        keys |= {"prompt_lookup_num_tokens": length}
        keys["max_matching_ngram_size"] = max(1, settings.ngram_order - 1)
        text = f"target.generate(**inputs, {_arguments(keys)})"
    elif settings.drafter == "draft_model":
        text = (
            f"draft = AutoModelForCausalLM.from_pretrained({provenance.draft!r})\n"
            f"draft.generation_config.update({_arguments(drafting)})\n"
            f"target.generate(**inputs, assistant_model=draft, {_arguments(keys)})"
        )
    elif settings.drafter == "early_exit":
        keys["assistant_early_exit"] = settings.verifier_layers
        text = (
            f"target.generation_config.update({_arguments(drafting)})\n"
            f"target.generate(**inputs, {_arguments(keys)})"
        )
    return _equivalent(TRANSFORMERS, settings, text if settings.exact else "")


def _equivalent(program: str, settings: Settings, text: str) -> Equivalent:
    if not settings.exact:
        return Equivalent(program, "", (say(NO_ARTICLE, program=program),))
    if not text:
        return Equivalent(program, "", (say(NO_DRAFTER, program=program),))
    notes = [say(NO_TREES, program=program)] if settings.method == "spork" else []
    lost = {
        NO_COUNTS: settings.drafter == "ngram",
        KEPT_BY_DRAFT: program == TRANSFORMERS and settings.drafter == "draft_model",
        UNTRAINED: settings.drafter == "early_exit",
        DSPARK_BLOCK: settings.drafter in ("dspark", "merged"),
        NO_MERGE: settings.drafter == "merged",
        NO_POLICY: settings.policy == "adaptive",
    }
    return Equivalent(program, text, (*notes, *(say(note) for note, told in lost.items() if told)))


def _chain_length(settings: Settings) -> int:
    """Tokens of a chain, or of one fork of a tree."""
    return 1 + settings.fork_depth if settings.method == "spork" else settings.draft_length


def _sampling(settings: Settings) -> dict[str, Any]:
    keys: dict[str, Any] = {"max_new_tokens": settings.max_new_tokens}
    if settings.greedy:
        return keys | {"do_sample": False}
    keys |= {"do_sample": True, "temperature": settings.temperature}
    return keys | {"top_p": settings.top_p, "top_k": settings.top_k}


def _arguments(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in keys.items())
