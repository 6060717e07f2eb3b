"""The scoring head of article A: one number a fork, from the layer-N state of its last token.

The article prints it with the weights it was created with. Fitted, it is a logistic regression of
"greedy wrote the same" on that state.
"""

import torch
from torch import Tensor, nn

PENALTY = 0.3
"""Weight of the squared weights beside the mean loss: states have more numbers than there are
independent forks, and without it every fork that was fitted on would be told apart."""

ITERATIONS = 60
LEAST = 1e-6


def fit_head(states: Tensor, agrees: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [hidden size] and bias of the head, from states [forks, hidden size] and labels.

    Both kinds of fork count alike, however many there are of each.
    """
    x, y = states.detach().clone().double(), agrees.double()
    mean, scale = x.mean(dim=0), x.std(dim=0).clamp(min=LEAST)
    x = (x - mean) / scale
    balance = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    weights = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        off = nn.functional.binary_cross_entropy_with_logits(x @ weights + bias, y, balance)
        total = off + PENALTY / 2 * weights.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    found = weights.detach() / scale
    return found, bias.detach() - found @ mean


def untrained_heads(size: int, count: int, seed: int) -> Tensor:
    """Weights [count, size] of heads as a linear layer is created. The bias moves no order."""
    generator = torch.Generator().manual_seed(seed)
    width = size**-0.5
    drawn = torch.rand(count, size, generator=generator, dtype=torch.float64)
    return (2 * drawn - 1) * width
