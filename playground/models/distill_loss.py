"""Losses and figures of distillation, from hidden states through the shared head.

Terms: p the teacher's distribution, q the student's; *overlap* sum of min(p, q), which is the
chance that speculative decoding accepts a drafted token; KL(p || q) in nats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

_CHUNK = 256  # positions at once: 256 x 49,152 floats are 50 MB
_VARIATION = 0.5  # weight of the total variation beside the KL


class HeadLoss(torch.autograd.Function):
    """KL(p || q) + weight * TV(p, q), averaged over positions, with hand-made gradients.

    By hand, so that no [N, V] array outlives its chunk: with logits z of q,
    dKL/dz = q - p and dTV/dz = q * (sum(q * m) - m), m = 1 where q < p.
    """

    @staticmethod
    def forward(ctx, states, target, head):
        """states, target float32 [N, H]; head bfloat16 [V, H]. Returns (loss, kl, overlap)."""
        grad = torch.empty_like(states)
        kl_sum = distance = 0.0
        for at in range(0, len(states), _CHUNK):
            part = slice(at, at + _CHUNK)
            log_p = torch.log_softmax((target[part].bfloat16() @ head.T).float(), -1)
            log_q = torch.log_softmax((states[part].bfloat16() @ head.T).float(), -1)
            p, q = log_p.exp(), log_q.exp()
            kl_sum += torch.dot(p.view(-1), log_p.sub_(log_q).view(-1))
            slope = torch.sub(q, p, out=p)
            distance += torch.linalg.vector_norm(slope, 1) / 2
            below = torch.where(slope < 0, q, 0.0)
            slope.addcmul_(q, below.sum(-1, keepdim=True), value=_VARIATION)
            slope.sub_(below, alpha=_VARIATION)
            grad[part] = (slope.bfloat16() @ head).float()
        count = len(states)
        ctx.save_for_backward(grad / count)
        kl, overlap = kl_sum / count, 1 - distance / count
        ctx.mark_non_differentiable(kl, overlap)
        return kl + _VARIATION * (1 - overlap), kl, overlap

    @staticmethod
    def backward(ctx, grad_loss, *_):
        """Gradient to the student's states only."""
        (grad,) = ctx.saved_tensors
        return grad * grad_loss, None, None


def head_factor(head: torch.Tensor, ids: Sequence[np.ndarray]) -> torch.Tensor:
    """Return F [H, H] with |d F|^2 = mean squared difference of logits for a difference d.

    The mean is over tokens as often as they occur in ``ids`` (half) and over all equally (half),
    and leaves out the shift that a softmax can't see.
    """
    vocab = len(head)
    counts = sum(np.bincount(x.ravel(), minlength=vocab) for x in ids).astype(np.float64)
    weight = torch.from_numpy(0.5 * counts / counts.sum() + 0.5 / vocab)
    rows = head.double()
    rows = rows - weight @ rows
    covariance = rows.T @ (rows * weight[:, None])
    return torch.linalg.cholesky(covariance + 1e-9 * torch.eye(len(covariance))).float()


def figures(states, target, head) -> tuple[np.ndarray, np.ndarray]:
    """Return overlap [N] and KL [N] of float32 states [N, H] and target [N, H]."""
    overlaps, divergences = [], []
    for at in range(0, len(states), _CHUNK):
        part = slice(at, at + _CHUNK)
        log_p = torch.log_softmax(target[part] @ head.T, -1)
        log_q = torch.log_softmax(states[part] @ head.T, -1)
        p, q = log_p.exp(), log_q.exp()
        overlaps.append(torch.minimum(p, q).sum(-1))
        divergences.append((p * (log_p - log_q)).sum(-1))
    return torch.cat(overlaps).numpy(), torch.cat(divergences).numpy()
