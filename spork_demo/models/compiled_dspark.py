"""The DSpark network on our own kernels: a block is one call, its context another."""

from collections.abc import Sequence

import torch
from torch import Tensor

from spork_demo.models import native
from spork_demo.models.compiled import ATTRIBUTE, CompiledDecoder, Parts, empty_layers
from spork_demo.models.compiled_linear import KINDS, RowsLinear, compile_linear, pack_linear
from spork_demo.models.dspark_network import DSparkNetwork, rotate
from spork_demo.models.row_cache import RowLayer


class CompiledBlocks:
    """The packed backbone of one network. Shared by all lanes; contexts are theirs."""

    def __init__(self, network: DSparkNetwork, kind: int) -> None:
        config = network.config
        self._network = network
        attentions = [layer.self_attn for layer in network.layers]
        maps = [each for one in attentions for each in (one.k_proj, one.v_proj)]
        self._context = RowsLinear(pack_linear(maps, kind))
        self._decoder = CompiledDecoder(
            Parts(
                layers=network.layers,
                norm=network.norm,
                head=network.lm_head,
                ids=None,
                vocabulary=config.head_rows,
                table=network.embed_tokens.weight,
                heads=config.heads,
                key_heads=config.kv_heads,
                head_size=config.head_size,
                inner=config.intermediate_size,
                eps=config.norm_eps,
                rotation=lambda positions: tuple(
                    each[0] for each in network.rotation(positions, torch.float32)
                ),
            ),
            kind,
        )

    def append(self, features: Tensor, layers: Sequence[RowLayer]) -> None:
        """As `DSparkNetwork.context_keys_values`, into the caches of `layers`."""
        network, config = self._network, self._network.config
        start, count = layers[0].rows, len(features)
        rows = network.hidden_norm(network.fc(features))
        split = (
            self._context(rows)
            .float()
            .view(count, 2 * len(layers), config.kv_heads, config.head_size)
        )
        split = split.permute(1, 2, 0, 3)  # keys and values in turns, as heads of rows
        keys, values = split[0::2], split[1::2]
        if config.qk_norm:
            norms = (layer.self_attn.k_norm for layer in network.layers)
            both = zip(norms, keys, strict=True)
            keys = torch.stack([norm(one.to(network.dtype)).float() for norm, one in both])
        cos, sin = self._decoder.rotations.below(start + count + 1)
        keys = rotate(keys, (cos[start : start + count], sin[start : start + count]))
        for layer, key, value in zip(layers, keys, values, strict=True):
            layer.update(key[None], value[None])

    def block(self, tokens: Sequence[int], layers: Sequence[RowLayer]) -> tuple[Tensor, Tensor]:
        """Normed hidden states [slots, hidden size] and base logits of a block; every slot sees
        the context and the whole block, which leaves no trace in the caches.
        """
        start, slots = layers[0].rows, len(tokens)
        last = len(layers) - 1
        logits, states = self._decoder.forward(
            tokens,
            range(start, start + slots),
            torch.ones(slots, slots, dtype=torch.uint8),
            layers,
            start=start,
            pending=0,
            features=[last],
        )
        for layer in layers:
            layer.rows = start
        return self._network.norm(states[last].to(self._network.dtype)), logits


def compile_dspark(network: DSparkNetwork, kind: int | None = None) -> bool:
    """Give a CPU network its compiled form and free the weights it replaces; False, and nothing
    changed, where that cannot be done. kind: of the backbone's weights, None for its own.
    """
    size, heads = network.config.head_size, network.config.heads
    library = native.kernels()
    if network.device.type != "cpu" or network.dtype not in KINDS or library is None:
        return False
    if not library.rows_serves(size) or heads % network.config.kv_heads:
        return False
    kind = KINDS[network.dtype] if kind is None else kind
    setattr(network, ATTRIBUTE, CompiledBlocks(network, kind))
    empty_layers(network.layers)
    network.fc = compile_linear(network.fc, kind)
    if network.markov_head is not None:
        network.markov_head.markov_w2 = compile_linear(network.markov_head.markov_w2, kind)
    return True
