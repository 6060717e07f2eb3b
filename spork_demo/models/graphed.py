"""A model on a GPU whose calls of a few rows are recorded once and replayed: CUDA graphs.

A small call on a GPU spends its time on launching kernels one by one. A graph launches them all at
once, but it is bound to addresses: rows are padded to one of a few shapes, and keys and values
live in slots that lanes take, give back and leave to the next lane with their graphs.
"""

import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from spork_demo.models.agreement import agrees
from spork_demo.models.compiled import ATTRIBUTE
from spork_demo.models.layers import decoder_layers, first_layers, layer_outputs
from spork_demo.models.masks import call_mask
from spork_demo.models.row_cache import RowLayer

logger = logging.getLogger(__name__)

SHAPES = (1, 2, 4, 8, 16, 32, 64)
"""Rows of a recorded call. More rows, as in a prompt, run unrecorded."""

FIRST_CAPACITY, SPARE = 1024, 512
"""Rows of the smallest slot, and rows to come that a slot is chosen to have room for."""

TOLERANCE = 0.1
"""See `agrees`: padded to another shape, a half-precision product is summed in another order."""

Output = tuple[Tensor, dict[int, Tensor]]
Record = Callable[[Callable[[], Output]], tuple[Callable[[], None], Output]]
"""Records work once; returns what replays it, and where its results lie after each replay."""


@dataclass(slots=True)
class Graph:
    """One recorded shape. ids, positions, places: rows of `numbers` [3, rows], fed before a
    replay, as is `mask` [1, 1, rows, capacity].
    """

    numbers: Tensor
    mask: Tensor
    replay: Callable[[], None]
    output: Output


@dataclass(slots=True)
class Slot:
    """Keys and values of one lane, [layers, 2, 1, heads, capacity, size], and what was recorded
    on them, by depth and rows.
    """

    memory: Tensor
    graphs: dict[tuple[int, int], Graph] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        return self.memory.shape[4]


class SlotLayer(DynamicLayer):
    """One layer of a slot, as a recorded call sees it: new rows go to `places`, all are read."""

    def __init__(self, memory: Tensor, places: Tensor) -> None:
        super().__init__()
        self._memory, self._places = memory, places
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_args, **_options):
        keys, values = self._memory
        keys.index_copy_(2, self._places, key_states)
        values.index_copy_(2, self._places, value_states)
        return keys, values

    def get_seq_length(self) -> int:
        return self._memory.shape[3]


class GraphedDecoder:
    """The recorded calls of one model. Called like a `CompiledDecoder`."""

    most_rows = SHAPES[-1]

    def __init__(self, model: PreTrainedModel, record: Record) -> None:
        self._record = record
        self._models: dict[int, nn.Module] = {len(decoder_layers(model)): model}
        self._whole = model
        self._device = model.get_input_embeddings().weight.device
        self._features: tuple[int, ...] = ()
        self._held: dict[int, Slot] = {}
        self._free: list[Slot] = []

    def forward(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sees: Tensor | None,
        cache: Sequence[RowLayer],
        *,
        start: int,
        pending: int,
        features: Sequence[int] = (),
        last_only: bool = False,
    ) -> Output:
        """See `CompiledDecoder.forward`; the first call of a shape on a slot also records it."""
        rows, at = len(tokens), cache[0].rows
        shape = next(each for each in SHAPES if each >= rows)
        slot = self._slot(cache, at + shape)
        mask = call_mask(
            rows,
            start=start,
            base=at - pending,
            pending=pending,
            sees=sees,
            shape=shape,
            capacity=slot.capacity,
        )[None, None]
        padding = [0] * (shape - rows)
        numbers = [[*tokens, *padding], [*positions, *padding], list(range(at, at + shape))]
        self._features = tuple(sorted({*self._features, *features}))
        graph = self._graph(slot, len(cache), torch.tensor(numbers), mask)
        for layer in cache:
            layer.rows = at + rows
        logits, seen = graph.output
        spoken = logits[rows - 1 : rows] if last_only else logits[:rows]
        kept = {layer: seen[layer][:rows].clone() for layer in features}
        return spoken.to(torch.float32, copy=True), kept  # the next replay writes over its output

    def move(self, cache: Sequence[RowLayer], rows: Sequence[int], start: int) -> None:
        """As `RowLayer.move`, for all layers."""
        index = torch.tensor(rows, device=self._device)
        slot = self._held.get(id(cache[0]))
        if slot is None or not all(map(_lies_in, cache, slot.memory)):
            for layer in cache:
                layer.move(index, start)
            return
        slot.memory[..., start : start + len(rows), :] = slot.memory.index_select(4, index)

    def _graph(self, slot: Slot, depth: int, numbers: Tensor, mask: Tensor) -> Graph:
        """The graph of this shape, fed and run."""
        key = depth, numbers.shape[1]
        graph = slot.graphs.get(key)
        wanted = {layer for layer in self._features if layer < depth}
        if graph is not None and wanted <= graph.output[1].keys():
            graph.numbers.copy_(numbers)
            graph.mask.copy_(mask)
            graph.replay()
            return graph
        slot.graphs.pop(key, None)
        slot.graphs[key] = self._recorded(
            slot, depth, numbers.to(self._device), mask.to(self._device), sorted(wanted)
        )
        return slot.graphs[key]

    def _recorded(
        self, slot: Slot, depth: int, numbers: Tensor, mask: Tensor, features: Sequence[int]
    ) -> Graph:
        if depth not in self._models:
            self._models[depth] = first_layers(self._whole, depth)
        model = self._models[depth]
        ids, positions, places = numbers

        def run() -> Output:
            cache = Cache(layers=[SlotLayer(memory, places) for memory in slot.memory[:depth]])
            with layer_outputs(model, features) as seen:
                output = model(
                    input_ids=ids[None],
                    attention_mask=mask,
                    position_ids=positions[None],
                    cache=cache,
                    use_cache=True,
                )
            return output.logits[0], seen

        replay, output = self._record(run)
        replay()  # recording alone may compute nothing
        return Graph(numbers, mask, replay, output)

    def _slot(self, cache: Sequence[RowLayer], needed: int) -> Slot:
        """The slot these layers lie in, which they are moved to when they do not, or outgrow it."""
        first = cache[0]
        held = self._held.get(id(first))
        if held is None or held.capacity < needed:
            slot = self._taken(needed)
            if held is None:
                weakref.finalize(first, self._release, id(first))
            else:
                self._free.append(held)
            self._held[id(first)] = held = slot
        for layer, memory in zip(cache, held.memory, strict=False):
            if not _lies_in(layer, memory):
                layer.settle(memory[0], memory[1])
        return held

    def _release(self, key: int) -> None:
        self._free.append(self._held.pop(key))

    def _taken(self, needed: int) -> Slot:
        wanted = needed + SPARE
        fitting = [slot for slot in self._free if slot.capacity >= wanted]
        if fitting:
            slot = min(fitting, key=lambda each: each.capacity)
            self._free.remove(slot)
            return slot
        capacity = FIRST_CAPACITY
        while capacity < wanted:
            capacity *= 2
        config = self._whole.config
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        layers = len(decoder_layers(self._whole))
        shape = (layers, 2, 1, heads, capacity, size)
        return Slot(torch.zeros(shape, dtype=self._whole.dtype, device=self._device))


def _lies_in(layer: RowLayer, memory: Tensor) -> bool:
    return layer.filled and layer.buffers[0].data_ptr() == memory[0].data_ptr()


def graph_model(model: PreTrainedModel, record: Record | None = None) -> bool:
    """Let a model that lies whole on one GPU run its small calls from graphs; False, and nothing
    changed, where that cannot be done or does not say what the model said.
    """
    device = model.get_input_embeddings().weight.device
    spread = len(set(getattr(model, "hf_device_map", {}).values())) > 1
    if record is None and (device.type != "cuda" or spread):
        return False
    decoder = GraphedDecoder(model, record or Recorder())
    vocabulary = model.get_input_embeddings().weight.shape[0]
    try:
        if not agrees(decoder.forward, model, vocabulary, TOLERANCE):
            logger.warning("graphs of this model do not say what it says; it runs without")
            return False
    except Exception:  # whatever a driver or an unusual model raises while it is recorded
        logger.exception("the calls of this model cannot be recorded; it runs without graphs")
        return False
    setattr(model, ATTRIBUTE, decoder)
    return True


class Recorder:
    """Records work on the current GPU. All recordings share one pool of memory, as none runs
    beside another.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Output]) -> tuple[Callable[[], None], Output]:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work()  # the first call sets up workspaces, which a recording must not
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = work()
        return graph.replay, output
