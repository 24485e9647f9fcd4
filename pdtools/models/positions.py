"""How a transformer knows positions."""

from __future__ import annotations

import torch
from torch import Tensor

from pdtools.models.attention import RelativePositions, ScoreInputs, shift_to_keys, sinusoids_of


class TwoSidedPositions(RelativePositions):
    """Transformer-XL's relative positions where queries see keys on both sides: distances of either sign."""

    def vectors(self, keys: int) -> Tensor:
        """W_R R of the distances keys - 1, …, 0, …, 1 - keys: (H, 2 K - 1, d_head)."""
        weight = self.distance_map.weight
        distances = torch.arange(keys - 1, -keys, -1, device=weight.device)  # (2 K - 1)
        r = self.distance_map(sinusoids_of(distances, self.d_model).to(weight.dtype))  # (2 K - 1, D)
        return r.view(len(distances), len(self.content_bias), -1).transpose(0, 1)

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        keys = k.shape[2]
        r = self.vectors(keys).transpose(1, 2)  # (H, d_head, 2 N - 1)
        by_distance = torch.einsum("bhqd,hdk->bhqk", q + self.position_bias, r)  # (B, H, N, 2 N - 1)
        content = self.content_bias @ k.transpose(2, 3)  # (B, H, 1, N)
        return content + shift_to_keys(by_distance)[..., :keys]
