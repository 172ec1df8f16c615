"""A GPT of 2 layers, d = 48 and 4 heads: about 60,000 parameters."""

from __future__ import annotations

import hashlib
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from examples.comparison.task import DIGITS, PROMPT, VOCABULARY

WIDTH: Final = 48
HEADS: Final = 4
LAYERS: Final = 2
LONGEST: Final = PROMPT + DIGITS

Cache = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    """Attention, then a feed-forward layer, each on what is normalised and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(B, L, WIDTH) of the same, and the keys and values of all positions so far."""
        rows, length, _ = x.shape
        parts = self.qkv(self.before_attention(x)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.mlp(self.before_mlp(x)), (key, value)


class GPT(nn.Module):
    """Token ids to hidden states; the head is the transposed embedding, kept apart for fused losses."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Run the model.

        Args:
            tokens: (B, L) int64, at most LONGEST with what the cache has seen.
            cache: what an earlier call returned; then L is 1, or the cache is None.

        Returns:
            (B, L, WIDTH) hidden states before the head, and the cache for the next call.
        """
        seen = 0 if cache is None else cache[0][0].shape[2]
        positions = torch.arange(seen, seen + tokens.shape[1])
        x = self.embedding(tokens) + self.position(positions)
        kept: Cache = []
        for i, block in enumerate(self.blocks):
            x, pair = block(x, None if cache is None else cache[i])
            kept.append(pair)
        return self.norm(x), kept

    def logits(self, tokens: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """(B, VOCABULARY) float32: for the token after the last, and the cache."""
        hidden, cache = self(tokens, cache)
        return self.head(hidden[:, -1]), cache


def fingerprint(model: nn.Module) -> str:
    """Hash of the weights, to tell that two runs started from the same ones."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode() + weight.numpy().tobytes())
    return digest.hexdigest()[:16]
