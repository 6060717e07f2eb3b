"""Every sentence and label of the race page, kept out of its logic so that it can be translated."""

from spork_demo.charts import palette
from spork_demo.language import later

TITLE = later("spork_demo: watch a language model decode faster")
HEADING = "Watch a language model decode faster"
INTRO = (
    "A language model writes one token at a time, each with a full pass through the model. "
    "**Speculative decoding** guesses several tokens cheaply and checks them all in one pass. "
    "Watch several methods decode the same prompt side by side: colours and underlines tell how "
    "each token came to be."
)

TAB_RACE = "Race"
TAB_INSIDE = "Inside a round"
RUN = "Run"
STOP = "Stop"
EXAMPLES = "Examples"
LANES_TITLE = "Lanes: who races, and by which rules"
KNOBS_TITLE = "Knobs: forks, thresholds, sampling"
RECORDINGS = "Choose a recorded race"
DOWNLOAD = "Download this race"
UPLOAD = "Open a race file"
SPEED_TITLE = "Decode speed"
PHASES_TITLE = "What a token costs"
ACCEPTANCE_TITLE = "How far drafts are kept"

METHOD_NAMES = {
    "greedy": "Greedy",
    "speculative": "Speculative",
    "spork": "SPORK",
    "dspark": "DSpark",
}
RULES_CHOICES = {
    "exact": "exact: the target's own output",
    "article": "article: approximate, as printed",
}
RULES_SHORT = {"exact": "exact", "article": "article"}
DRAFTER_NAMES = {
    "auto": "automatic drafter",
    "target": "target drafts",
    "early_exit": "early exit drafts",
    "draft_model": "draft model drafts",
    "ngram": "n-gram drafts",
    "recycle": "recycled tokens draft",
    "dspark": "DSpark network drafts",
    "merged": "all drafters merged",
}
JUDGE_NAMES = {
    "auto": "automatic judge",
    "target": "target judges",
    "early_layers": "early layers judge",
    "draft_model": "draft model judges",
    "first_token": "first token judges",
}
GREEDY_WHO = "one target call per token"
CHOICE_NAMES = {
    "fork_shape": {
        "tree": "tree, grown best first",
        "forks": "K forks of 1 + M, as the article",
        "hierarchical": "K forks half as deep, then the better half goes on",
    },
    "policy": {
        "fixed": "K, M and γ as set",
        "adaptive": "smaller after misses, larger after whole forks",
    },
    "threshold_rule": {"fixed": "τ as set", "auto": "τ moves until α of the rounds pass"},
    "fork_sampling": {"greedy": "most probable token", "top_p": "sampled within top-p"},
    "schedule": {
        "hardware": "hardware: as many as pay on this machine",
        "threshold": "threshold: up to the first draft below c",
        "full": "full: the whole block",
    },
}
KNOB_LABELS = {
    "fork_width": "K · fork width",
    "fork_depth": "M · fork depth",
    "node_budget": "nodes · budget of a tree",
    "draft_length": "γ · draft length",
    "accept_threshold": "τ · accept threshold",
    "min_threshold": "min threshold",
    "max_threshold": "max threshold",
    "verifier_layers": "N · verifier layers",
    "temperature": "T · temperature",
    "top_p": "top-p",
    "top_k": "top-k",
    "seed": "seed",
    "max_new_tokens": "new tokens",
    "confidence_threshold": "c · confidence threshold",
    "ngram_order": "n · n-gram order",
    "wanted_acceptance": "α · share to pass",
}
CHOICE_LABELS = {
    "fork_shape": "Fork shape",
    "fork_sampling": "Forks go on with",
    "schedule": "Drafts sent to the target",
    "policy": "Size of the drafts",
    "threshold_rule": "Threshold of a score judge",
}
CHOICE_INFO = {
    "policy": "adaptive never drafts more than the sliders say",
    "threshold_rule": "article SPORK only",
    "schedule": (
        "exact DSpark drafts a block at once and may keep back the drafts it trusts least; "
        "hardware weighs expected tokens against measured seconds"
    ),
}
KNOB_INFO = {"confidence_threshold": "{meaning}; only the threshold rule reads it"}
KNOB_GROUPS = {
    "judging": "Judging: thresholds and layers",
    "shape": "Shape of the forks",
    "scheduling": "DSpark: how much of a block is sent",
    "sampling": "Sampling",
}

FATE_WORDS = {
    "plain": "plain: one target call of its own",
    "accepted": "accepted: drafted, and kept by the judge",
    "bonus": "bonus: the target's own token after an accepted prefix",
    "correction": "correction: the target's token in place of a rejected draft",
    "fallback": "fallback: the top-1 token, because no fork reached the threshold",
    "rejected": "rejected: drafted, judged and not kept",
    "cut": "cut: drafted, but not sent to be judged",
}
FATES = {
    name: {"glyph": palette.FATES[name].glyph, "words": words} for name, words in FATE_WORDS.items()
}

SOURCES = {
    "target": "by the target itself",
    "early_exit": "by the target's first layers",
    "draft_model": "by the draft model",
    "dspark": "by the DSpark drafter",
    "table": "from the table of text the target wrote earlier",
    "context": "from counts over this text",
    "recycled": "recycled: the target thought it likely after this token earlier in this run",
    "ngram": "from n-gram counts",
}
END_OF_TEXT = "‹end›"

VIEW = {
    "recorded": "recorded",
    "live": "live",
    "replay": "▶ Replay",
    "pause": "❚❚ Pause",
    "resume": "▶ Resume",
    "show_all": "Show all",
    "speed": "Replay speed",
    "prompt": "Prompt",
    "legend": "How each token came to be",
    "show_dropped": "show rejected and cut drafts",
    "rate": "tokens/s",
    "count": "{tokens} tokens · {seconds} s",
    "tokens_of": "{lane}: tokens. Arrow keys move, Enter opens details.",
    "plain_text": "Plain text",
    "no_text": "(part of a character)",
    "end_of_text": "(end of text)",
    "card": "Token details",
    "not_kept": "not kept",
    "place": "token {number}",
    "fate": "fate",
    "id": "token id",
    "round": "round",
    "target_probability": "target probability",
    "draft_probability": "draft probability",
    "confidence": "confidence",
    "source": "origin",
    "margin": "logit margin",
    "open_round": "Open this round",
    "close": "Close",
    "finished": "Race finished.",
    "spoken": "{lane}: {tokens} tokens, {rate} tokens per second.",
}
"""Words of the race view, sent to assets/race.js with each race."""

STOP_WORDS = {
    "eos": "The text is complete.",
    "length": "Reached the asked number of new tokens.",
    "context": "The model's context is full.",
    "stopped": "Stopped here; the text so far is kept.",
    "failed": "This lane failed; the text so far is kept.",
}

AUTOMATIC = "automatic"
DSPARK_NOTE = (
    "Exact DSpark needs its own trained drafter, which the model here does not have or is still "
    "loading, so this lane uses the article's rules: the text may differ from the target's."
)
ARTICLE_NOTE = "Article rules are approximate: the text may differ from the target's own."
GREEDY_NOTE = "The baseline: one target call per token. Ratios refer to the first greedy lane."
EXACT_NOTE = "Exact rules: the output is the target's own, only the speed differs."

NOT_KEPT = "Drafted and not kept:"
WHY_SENT_TITLE = "Why so many were sent"
CHANCES_TITLE = "The chance of each draft"
COSTS_TITLE = "What sending them is worth"
CHANCES = (
    "Predicted survival is the chance that a draft and all before it are accepted: the product of "
    "their confidences."
)
COSTS = (
    "Θ is the tokens expected divided by the seconds of drafting and of the target call. Sending "
    "stops at the first draft that does not pay, without a look at later ones; where the cost "
    "climbs in steps, the first draft of a step is judged by what the whole step could bring."
)
SENT_FULL = (
    "The rule is to send the whole block: all {drafts}, though the last, draft {last}, is expected "
    "to survive with probability {survival} only."
)
SENT_ALL_ABOVE = (
    "The rule is to stop before the first draft below c. There was none: the lowest confidence of "
    "the {drafts}, {lowest}, reaches c {limit}, so all were sent."
)
SENT_UP_TO = (
    "The rule is to stop before the first draft below c. Draft {first} has confidence "
    "{confidence}, below c {limit}, so {cut}."
)
EXPECTED = (
    "Sending {drafts} is expected to commit {total} {tokens} in {draft} of drafting and {call} of "
    "target call, as measured on the machine of this run: Θ = {rate} tokens/s."
)
NOTHING_REFUSED = "Every further draft raised Θ, from {rate} with none sent, so all were sent."
NOTHING_REFUSED_STEPS = (
    "Not every draft raised Θ by itself, but each brought a higher one in reach, from {rate} with "
    "none sent, so all were sent."
)
NO_CHANCE = "Draft {first} has no chance of surviving, so the search ended there."
REFUSED = (
    "Draft {first}, expected to survive with probability {survival}, would change Θ to {rate}, no "
    "more than {chosen}, so {cut}."
)
REFUSED_STAIR = (
    "Draft {first}, expected to survive with probability {survival}, would change Θ to {rate}; "
    "even if the drafts behind it, which cost hardly more, were accepted as often as it, at most "
    "{hope} is in reach, no more than {chosen}, so {cut}."
)
WAS_CUT = "it was cut"
WERE_CUT = "it and all behind it, {count} in all, were cut"

RELIABILITY_TITLE = "Do the confidences come true?"
RELIABILITY = (
    "{lane}: on the dotted line a prediction comes true as often as it says; below it the drafter "
    "is too sure. {error}, from {drafts} of {rounds}, in {bins} equal bins as one run has few "
    "drafts. Drafts that were cut are not in it."
)
RELIABILITY_EMPTY = "{lane}: points appear here as drafts are judged."
ERROR_BOTH = "Expected calibration error {before} before temperature scaling, {after} after"
ERROR_ONE = "Expected calibration error {after}; this drafter has no temperature scaling"
TOO_FEW_DRAFTS = " {drafts} are too few to judge by: below {enough} chance alone moves the points."

NOT_READY = "The model is not ready yet, so this run cannot start: {message} Your text is kept."
NO_MODEL = "No model can run here: {message} Recorded races still replay."
RUN_FAILED = "The run failed on the server and was ended. The text so far is kept; try again."
STOPPED = "Stopped. The text so far is kept and can be inspected."
FINISHED = "Finished. Point at a token, or press Tab and the arrow keys, to inspect it."
RUNNING = "Running live…"
TIME_LIMIT = "The run reached this page's limit of {seconds} seconds; the text so far is kept."
UPLOADED = "Loaded the file: {title}. It replays exactly as it was recorded."
UPLOAD_UNREADABLE = "The file could not be read. The current race is kept."
UPLOAD_TOO_LARGE = "The file is larger than this page's limit of {limit} MB."
UPLOAD_KEPT = "{reason} The current race is kept."
OPENING = (
    "This is a recorded race. Press Replay to watch it at its true relative speed, or write a "
    "prompt and press Run."
)
NO_RACE = "There is no race yet. Write a prompt and press Run."
UNKNOWN_RECORDING = "There is no such recorded race."

EMPTY_PROMPT = "Write a prompt first."
PROMPT_KIND = "The prompt must be text."
PROMPT_TOO_LONG = "The prompt has {length} characters; this page's limit is {limit}."
LANES_KIND = "A race has 2 to {limit} lanes on this page."
TOO_MANY_TOKENS = "{asked} new tokens were asked for; this page's limit is {limit}."
TOO_MANY_NODES = "A round may draft {asked} tokens with these knobs; this page's limit is {limit}."
UNKNOWN_PRESET = "There is no such preset for this method and these rules."
UNKNOWN_PAIR = "There is no such model pair here."
OWN_KNOBS_KIND = "Own knobs must look like fork_width=8 draft_length=2."
OWN_KNOBS_UNKNOWN = "There is no knob called {name} that a lane can set for itself."
OWN_KNOBS_TWICE = "{name} is set twice."
OWN_KNOBS_VALUE = "{name} must be a number, as in {name}={example}."

TIMING_TITLE = "How this was timed"
TIMING = (
    "Lanes take turns on one device, a round at a time, and **each lane's stopwatch runs only "
    "during its own rounds**, with the device synchronised at both ends. Drawing this page, the "
    "network and the other lanes are never on the clock, and a warm-up run comes first. So the "
    "lanes can be watched side by side and still be timed as if each ran alone; Replay shows them "
    "in that time. Decode tokens per second leaves out the prompt; time to first token includes "
    "it. A speedup below 1 is a slowdown and is shown as one: on small models a round's overhead "
    "can cost more than it saves."
)
