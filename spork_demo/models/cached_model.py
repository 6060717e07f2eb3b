"""The only file that knows the cache API: one model, its cache, and the rows not yet kept.

Between rounds the cache holds every committed token except the anchor. A forward call appends
rows that continue the committed prefix as a chain or a tree; `commit` keeps the rows of one
branch, in place, and `rollback` forgets. Rows cost memory only for the tokens fed: every branch
attends to the same prefix rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Cache

from spork_demo.models.compiled import compiled_of
from spork_demo.models.layers import decoder_layers, first_layers, layer_outputs
from spork_demo.models.masks import call_mask
from spork_demo.models.row_cache import RowLayer


@dataclass(frozen=True, slots=True)
class Scores:
    """What one call said. start: cache length before it; logits: [tokens fed, vocabulary] float32
    (only the last row for a prefill); features: layer index -> [tokens fed, hidden size], the
    output of that decoder layer before any final norm, for every token fed. tokens: what was fed,
    one a row of the logits.
    """

    start: int
    logits: Tensor
    features: dict[int, Tensor] = field(default_factory=dict)
    tokens: tuple[int, ...] = ()

    def committed(self, rows: Sequence[int]) -> "Scores":
        """These scores with the features of the rows that were committed, and of no others."""
        if not self.features:
            return self
        return replace(self, features={n: kept[list(rows)] for n, kept in self.features.items()})


class CachedModel:
    """A causal LM with one sequence's cache. One per lane: nothing here is shared by visitors."""

    def __init__(self, model: nn.Module, vocab_size: int, owner: "CachedModel | None" = None):
        self.model = model
        self.vocab_size = vocab_size
        self.depth = len(decoder_layers(model))
        self.calls = 0
        self._owner = owner
        layers = owner.layers[: self.depth] if owner else [RowLayer() for _ in range(self.depth)]
        self._cache = Cache(layers=layers)
        self._length = 0
        self._parents: list[int] = []

    @property
    def layers(self) -> list[RowLayer]:
        return self._cache.layers

    @property
    def length(self) -> int:
        """Committed rows. Rows fed since the last commit are not counted."""
        return self._owner.length if self._owner else self._length

    @property
    def pending(self) -> int:
        """Rows fed since the last commit or rollback."""
        return len(self._parents)

    @property
    def rows(self) -> int:
        """Rows the cache physically holds: committed and pending."""
        return self.layers[0].rows

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    def early_exit(self, layers: int) -> "CachedModel":
        """The first `layers` layers with the model's own final norm and head.

        Shares this cache: it reads the committed prefix of those layers and must be rolled back
        before this model is fed again.
        """
        return CachedModel(first_layers(self.model, layers), self.vocab_size, owner=self)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        last_only: bool = False,
        features: Sequence[int] = (),
    ) -> Scores:
        """Feed tokens that continue the committed prefix.

        parents: for each token the pending row it follows (counted from the last commit, rows of
            this call included), or -1 for the prefix itself; None feeds a chain onto the newest
            pending row. last_only: logits for the last token only (prefill).
        Raises ValueError for a parent that does not come before its token.
        """
        fresh = len(self._parents)
        if parents is None:
            parents = range(fresh - 1, fresh - 1 + len(tokens))
        if any(not -1 <= parent < fresh + place for place, parent in enumerate(parents)):
            raise ValueError("A token must be fed after its parent.")
        start, gap = self.length, self.rows - self.length - fresh
        self._parents.extend(parents)
        if not tokens:
            return Scores(start, torch.empty(0, self.vocab_size, device=self.device))
        positions = [start + depth for depth in self._depths()[fresh:]]
        logits, seen = self._run(tokens, positions, fresh, gap, features, last_only)
        self.calls += 1
        fed = tuple(tokens[-1:] if last_only else tokens)
        return Scores(start, logits[:, : self.vocab_size], seen, fed)

    def _run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        fresh: int,
        gap: int,
        features: Sequence[int],
        last_only: bool,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        compiled = compiled_of(self.model)
        if compiled is not None and len(tokens) <= compiled.most_rows:
            return compiled.forward(
                tokens,
                positions,
                self._sees(fresh),
                self.layers,
                start=self.length,
                pending=fresh,
                features=features,
                last_only=last_only,
            )
        with layer_outputs(self.model, features) as seen:
            output = self.model(
                input_ids=torch.tensor([list(tokens)], device=self.device),
                attention_mask=self._mask(fresh, gap),
                position_ids=torch.tensor([positions], device=self.device),
                cache=self._cache,
                use_cache=True,
                logits_to_keep=1 if last_only else 0,
            )
        return output.logits[0].float(), seen

    @torch.inference_mode()
    def commit(self, rows: Sequence[int]) -> None:
        """Keep these pending rows, in this order of depth, and drop the others."""
        if self._owner is not None:
            raise ValueError("An early exit reads its owner's cache and commits nothing.")
        if any(not 0 <= row < self.pending for row in rows) or sorted(set(rows)) != list(rows):
            raise ValueError("Only pending rows can be committed, each once and in order.")
        start = self._length
        moved = list(rows) != list(range(len(rows)))
        places = [start + row for row in rows]
        compiled = compiled_of(self.model)
        if moved and compiled is not None:
            compiled.move(self.layers, places, start)
        elif moved:
            index = torch.tensor(places, device=self.device)
            for layer in self.layers:
                layer.move(index, start)
        for layer in self.layers:
            layer.rows = start + len(rows)
        self._length = start + len(rows)
        self._parents.clear()

    def rollback(self, to: int | None = None) -> None:
        """Drop every pending row, and committed ones from position `to` on.

        Raises ValueError when asked to go forward. Doing it twice changes nothing.
        """
        keep = self.length if to is None else to
        if not 0 <= keep <= self.length or (self._owner is not None and keep != self.length):
            raise ValueError("A rollback cannot go forward, nor cut a cache it does not own.")
        below = self.rows - self.pending if self._owner else keep
        for layer in self.layers:
            layer.rows = min(layer.rows, below)
        self._length = keep
        self._parents.clear()

    def _depths(self) -> list[int]:
        """How far below the prefix each pending row is."""
        depths: list[int] = []
        for parent in self._parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return depths

    def _sees(self, fresh: int) -> Tensor | None:
        """[new rows, pending rows], 1 where a row follows another or is it; None for a chain."""
        parents = self._parents
        if all(parent == place - 1 for place, parent in enumerate(parents)):
            return None
        sees = np.zeros((len(parents), len(parents)), dtype=np.uint8)
        for place, parent in enumerate(parents):
            if parent >= 0:
                sees[place] = sees[parent]
            sees[place, place] = 1
        return torch.from_numpy(sees[fresh:])

    def _mask(self, fresh: int, gap: int) -> Tensor | None:
        """Attention mask of the newest rows, [1, 1, new rows, cached rows]. None stands for plain
        causal attention, which the kernels do fastest.
        """
        start, new = self.length, self.pending - fresh
        sees = self._sees(fresh)
        if sees is None and gap == fresh == 0 and (new == 1 or start == 0):
            return None
        mask = call_mask(new, start=start, base=start + gap, pending=fresh, sees=sees)
        return mask[None, None].to(self.device)
