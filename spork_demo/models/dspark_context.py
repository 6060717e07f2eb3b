"""What one lane's DSpark drafter knows of the text before the anchor."""

import torch
from torch import Tensor

from spork_demo.models.compiled import compiled_of
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.row_cache import RowLayer


class Context:
    """What one lane's drafter knows of the text before the anchor: keys and values, a layer each.

    Block rows never get in: they come from masks and from drafts that may be refused.
    """

    def __init__(self, network: DSparkNetwork) -> None:
        self._network = network
        self._layers = [RowLayer() for _ in network.layers]
        width = len(network.config.feature_layers) * network.config.hidden_size
        self.append(torch.zeros(0, width, dtype=network.dtype, device=network.device))

    @property
    def length(self) -> int:
        return self._layers[0].rows

    def rollback(self, length: int) -> None:
        """Drop the positions from `length` on."""
        for layer in self._layers:
            layer.rows = min(layer.rows, length)

    @torch.inference_mode()
    def append(self, features: Tensor) -> None:
        """Add the positions that follow, from the target's features [rows, taps * hidden size]."""
        compiled = compiled_of(self._network)
        if compiled is not None:
            compiled.append(features, self._layers)
            return
        positions = torch.arange(
            self.length, self.length + features.shape[0], device=features.device
        )
        pairs = self._network.context_keys_values(features, positions)
        for layer, pair in zip(self._layers, pairs, strict=True):
            layer.update(*pair)

    @torch.inference_mode()
    def block(self, anchor: int) -> tuple[Tensor, Tensor]:
        """Normed hidden states [block size, hidden size] of a block behind this context, and
        what each slot predicts before the token in front of it is known, [block size, rows].
        """
        config, device = self._network.config, self._network.device
        tokens = [anchor, *[config.mask_token] * (config.block_size - 1)]
        compiled = compiled_of(self._network)
        if compiled is not None:
            return compiled.block(tokens, self._layers)
        hidden = self._network(
            torch.tensor(tokens, device=device),
            torch.arange(self.length, self.length + config.block_size, device=device),
            [layer.cached for layer in self._layers],
        )
        return hidden, self._network.base_logits(hidden)
