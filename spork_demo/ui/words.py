"""Every sentence and label of the race page, kept out of its logic so that it can be translated."""

from spork_demo.language import later

TITLE = later("spork_demo: watch a language model decode faster")
HEADING = later("Watch a language model decode faster")
INTRO = later(
    "A language model writes one token at a time, each with a full pass through the model. "
    "**Speculative decoding** guesses several tokens cheaply and checks them all in one pass. "
    "Watch several methods decode the same prompt side by side: colours and underlines tell how "
    "each token came to be."
)

TAB_RACE = later("Race")
TAB_INSIDE = later("Inside a round")
RUN = later("Run")
STOP = later("Stop")
EXAMPLES = later("Examples")
LANES_TITLE = later("Lanes: who races, and by which rules")
KNOBS_TITLE = later("Knobs: forks, thresholds, sampling")
RECORDINGS = later("Choose a recorded race")
DOWNLOAD = later("Download this race")
UPLOAD = later("Open a race file")
SPEED_TITLE = later("Decode speed")
PHASES_TITLE = later("What a token costs")
ACCEPTANCE_TITLE = later("How far drafts are kept")

METHOD_NAMES = {
    "greedy": later("Greedy"),
    "speculative": later("Speculative"),
    "spork": later("SPORK"),
    "dspark": later("DSpark"),
    "served": later("Served"),
}
RULES_CHOICES = {
    "exact": later("exact: the target's own output"),
    "article": later("article: approximate, as printed"),
}
RULES_SHORT = {"exact": later("exact"), "article": later("article")}
DRAFTER_NAMES = {
    "auto": later("automatic drafter"),
    "target": later("target drafts"),
    "early_exit": later("early exit drafts"),
    "draft_model": later("draft model drafts"),
    "ngram": later("n-gram drafts"),
    "recycle": later("recycled tokens draft"),
    "dspark": later("DSpark network drafts"),
    "merged": later("all drafters merged"),
}
JUDGE_NAMES = {
    "auto": later("automatic judge"),
    "target": later("target judges"),
    "early_layers": later("early layers judge"),
    "draft_model": later("draft model judges"),
    "first_token": later("first token judges"),
}
GREEDY_WHO = later("one target call per token")
CHOICE_NAMES = {
    "fork_shape": {
        "tree": later("tree, grown best first"),
        "forks": later("K forks of 1 + M, as the article"),
        "hierarchical": later("K forks half as deep, then the better half goes on"),
    },
    "policy": {
        "fixed": later("K, M and γ as set"),
        "adaptive": later("smaller after misses, larger after whole forks"),
    },
    "threshold_rule": {
        "fixed": later("τ as set"),
        "auto": later("τ moves until α of the rounds pass"),
    },
    "fork_sampling": {
        "greedy": later("most probable token"),
        "top_p": later("sampled within top-p"),
    },
    "schedule": {
        "hardware": later("hardware: as many as pay on this machine"),
        "threshold": later("threshold: up to the first draft below c"),
        "full": later("full: the whole block"),
    },
}
KNOB_LABELS = {
    "fork_width": later("K · fork width"),
    "fork_depth": later("M · fork depth"),
    "node_budget": later("nodes · budget of a tree"),
    "draft_length": later("γ · draft length"),
    "accept_threshold": later("τ · accept threshold"),
    "min_threshold": later("min threshold"),
    "max_threshold": later("max threshold"),
    "verifier_layers": later("N · verifier layers"),
    "temperature": later("T · temperature"),
    "top_p": later("top-p"),
    "top_k": later("top-k"),
    "seed": later("seed"),
    "max_new_tokens": later("new tokens"),
    "confidence_threshold": later("c · confidence threshold"),
    "ngram_order": later("n · n-gram order"),
    "wanted_acceptance": later("α · share to pass"),
}
CHOICE_LABELS = {
    "fork_shape": later("Fork shape"),
    "fork_sampling": later("Forks go on with"),
    "schedule": later("Drafts sent to the target"),
    "policy": later("Size of the drafts"),
    "threshold_rule": later("Threshold of a score judge"),
}
CHOICE_INFO = {
    "policy": later("adaptive never drafts more than the sliders say"),
    "threshold_rule": later("article SPORK only"),
    "schedule": later(
        "exact DSpark drafts a block at once and may keep back the drafts it trusts least; "
        "hardware weighs expected tokens against measured seconds"
    ),
}
KNOB_INFO = {"confidence_threshold": later("{meaning}; only the threshold rule reads it")}
KNOB_GROUPS = {
    "judging": later("Judging: thresholds and layers"),
    "shape": later("Shape of the forks"),
    "scheduling": later("DSpark: how much of a block is sent"),
    "sampling": later("Sampling"),
}

FATE_WORDS = {
    "plain": later("plain: one target call of its own"),
    "accepted": later("accepted: drafted, and kept by the judge"),
    "bonus": later("bonus: the target's own token after an accepted prefix"),
    "correction": later("correction: the target's token in place of a rejected draft"),
    "fallback": later("fallback: the top-1 token, because no fork reached the threshold"),
    "served": later("served: sent by another server; how it came to be does not show from outside"),
    "rejected": later("rejected: drafted, judged and not kept"),
    "cut": later("cut: drafted, but not sent to be judged"),
}

SOURCES = {
    "target": later("by the target itself"),
    "early_exit": later("by the target's first layers"),
    "draft_model": later("by the draft model"),
    "dspark": later("by the DSpark drafter"),
    "table": later("from the table of text the target wrote earlier"),
    "context": later("from counts over this text"),
    "recycled": later(
        "recycled: the target thought it likely after this token earlier in this run"
    ),
    "ngram": later("from n-gram counts"),
}
END_OF_TEXT = later("‹end›")

VIEW = {
    "race": later("Race"),
    "recorded": later("recorded"),
    "live": later("live"),
    "replay": later("▶ Replay"),
    "pause": later("❚❚ Pause"),
    "resume": later("▶ Resume"),
    "show_all": later("Show all"),
    "speed": later("Replay speed"),
    "prompt": later("Prompt"),
    "legend": later("How each token came to be"),
    "show_dropped": later("show rejected and cut drafts"),
    "rate": later("tokens/s"),
    "count": later("{tokens} tokens · {seconds} s"),
    "tokens_of": later("{lane}: tokens. Arrow keys move, Enter opens details."),
    "plain_text": later("Plain text"),
    "no_text": later("(part of a character)"),
    "end_of_text": later("(end of text)"),
    "card": later("Token details"),
    "not_kept": later("not kept"),
    "place": later("token {number}"),
    "fate": later("fate"),
    "id": later("token id"),
    "round": later("round"),
    "together": later("tokens that arrived together"),
    "target_probability": later("target probability"),
    "draft_probability": later("draft probability"),
    "confidence": later("confidence"),
    "source": later("origin"),
    "margin": later("logit margin"),
    "open_round": later("Open this round"),
    "close": later("Close"),
    "finished": later("Race finished."),
    "gap": later(" "),
    "spoken": later("{lane}: {tokens} tokens, {rate} tokens per second."),
}
"""Words of the race view, sent to assets/race.js with each race."""

STOP_WORDS = {
    "eos": later("The text is complete."),
    "length": later("Reached the asked number of new tokens."),
    "context": later("The model's context is full."),
    "stopped": later("Stopped here; the text so far is kept."),
    "failed": later("This lane failed; the text so far is kept."),
}

AUTOMATIC = later("automatic")
DSPARK_NOTE = later(
    "Exact DSpark needs its own trained drafter, which the model here does not have or is still "
    "loading, so this lane uses the article's rules: the text may differ from the target's."
)
ARTICLE_NOTE = later("Article rules are approximate: the text may differ from the target's own.")
GREEDY_NOTE = later(
    "The baseline: one target call per token. Ratios refer to the first greedy lane."
)
PRESET_INFO = later("who drafts and who judges")
SERVER_INFO = later("which one decodes this lane")
SERVED_NOTE = later(
    "Your prompt is sent to this server. It runs after the lanes here, on an engine of its own; "
    "what arrives is timed on arrival, network included."
)
UNKNOWN_SERVER = later("There is no such server on this page.")
EXACT_NOTE = later("Exact rules: the output is the target's own, only the speed differs.")

NOT_KEPT = later("Drafted and not kept:")
WHY_SENT_TITLE = later("Why so many were sent")
CHANCES_TITLE = later("The chance of each draft")
COSTS_TITLE = later("What sending them is worth")
CHANCES = later(
    "Predicted survival is the chance that a draft and all before it are accepted: the product of "
    "their confidences."
)
COSTS = later(
    "Θ is the tokens expected divided by the seconds of drafting and of the target call. Sending "
    "stops at the first draft that does not pay, without a look at later ones; where the cost "
    "climbs in steps, the first draft of a step is judged by what the whole step could bring."
)
RELIABILITY_TITLE = later("Do the confidences come true?")
RELIABILITY = later(
    "{lane}: on the dotted line a prediction comes true as often as it says; below it the drafter "
    "is too sure. {error}, from {drafts} of {rounds}, in {bins} equal bins as one run has few "
    "drafts. Drafts that were cut are not in it."
)
RELIABILITY_EMPTY = later("{lane}: points appear here as drafts are judged.")
ERROR_BOTH = later("Expected calibration error {before} before temperature scaling, {after} after")
ERROR_ONE = later("Expected calibration error {after}; this drafter has no temperature scaling")
TOO_FEW_DRAFTS = later(
    "{drafts} are too few to judge by: below {enough} chance alone moves the points."
)

NOT_READY = later(
    "The model is not ready yet, so this run cannot start: {message} Your text is kept."
)
NO_MODEL = later("No model can run here: {message} Recorded races still replay.")
RUN_FAILED = later(
    "The run failed on the server and was ended. The text so far is kept; try again."
)
STOPPED = later("Stopped. The text so far is kept and can be inspected.")
FINISHED = later("Finished. Point at a token, or press Tab and the arrow keys, to inspect it.")
RUNNING = later("Running live…")
AGAIN = later("The machine this ran on was lost, so all lanes began again on another one.")
TIME_LIMIT = later(
    "The run reached this page's limit of {seconds} seconds; the text so far is kept. Ask for "
    "fewer new tokens or lanes."
)
UPLOADED = later("Loaded the file: {title}. It replays exactly as it was recorded.")
UPLOAD_UNREADABLE = later("The file could not be read. The current race is kept.")
UPLOAD_TOO_LARGE = later(
    "The file is larger than this page's limit of {limit} MB. Choose a smaller one."
)
UPLOAD_KEPT = later("{reason} The current race is kept.")
OPENING = later(
    "This is a recorded race. Press Replay to watch it at its true relative speed, or write a "
    "prompt and press Run."
)
NO_RACE = later("There is no race yet. Write a prompt and press Run.")
UNKNOWN_RECORDING = later("There is no such recorded race.")

EMPTY_PROMPT = later("Write a prompt first.")
PROMPT_KIND = later("The prompt must be text.")
PROMPT_TOO_LONG = later(
    "The prompt has {length} characters; this page's limit is {limit}. Shorten it."
)
LANES_KIND = later("A race has 2 to {limit} lanes on this page.")
TOO_MANY_TOKENS = later(
    "{asked} new tokens were asked for; this page's limit is {limit}. Ask for fewer."
)
TOO_MANY_NODES = later(
    "A round may draft {asked} tokens with these knobs; this page's limit is {limit}. Make K, M, "
    "γ or the node budget smaller."
)
UNKNOWN_PRESET = later("There is no such preset for this method and these rules.")
UNKNOWN_PAIR = later("There is no such model pair here.")
OWN_KNOBS_KIND = later("Own knobs must look like fork_width=8 draft_length=2.")
OWN_KNOBS_UNKNOWN = later("There is no knob called {name} that a lane can set for itself.")
OWN_KNOBS_TWICE = later("{name} is set twice.")
OWN_KNOBS_VALUE = later("{name} must be a number, as in {name}={example}.")

TIMING_TITLE = later("How this was timed")
TIMING = later(
    "Lanes take turns on one device, a round at a time, and **each lane's stopwatch runs only "
    "during its own rounds**, with the device synchronised at both ends. Drawing this page, the "
    "network and the other lanes are never on the clock, and a warm-up run comes first. So the "
    "lanes can be watched side by side and still be timed as if each ran alone; Replay shows them "
    "in that time. Decode tokens per second leaves out the prompt; time to first token includes "
    "it. A speedup below 1 is a slowdown and is shown as one: on small models a round's overhead "
    "can cost more than it saves."
)
