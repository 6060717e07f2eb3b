"""What each knob does, in the words the page and the command line show beside it."""

from spork_demo.language import later

MEANINGS = {
    "fork_width": later("children per node: how many forks a round opens"),
    "fork_depth": later("tokens each fork goes on after its first one"),
    "node_budget": later("most drafted tokens in a tree"),
    "draft_length": later("tokens drafted in a chain"),
    "accept_threshold": later("score a fork needs to be kept whole"),
    "min_threshold": later("threshold when the draft is certain"),
    "max_threshold": later("threshold when the draft is unsure"),
    "verifier_layers": later("layers used by early exit and early layers"),
    "temperature": later("0 takes the most probable token"),
    "top_p": later("keep the smallest set of this probability"),
    "top_k": later("keep the k most probable tokens; 0 is off"),
    "seed": later("same seed and settings, same tokens"),
    "max_new_tokens": later("most tokens a run may add"),
    "confidence_threshold": later("confidence a draft must have to be sent"),
    "wanted_acceptance": later("share of rounds automatic τ lets pass"),
    "ngram_order": later("longest n-gram the n-gram drafter looks up"),
}
