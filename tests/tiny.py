"""Tiny models with random weights, made in milliseconds, for tests that need no download.

Each builder returns a float32 transformers model in eval mode on the CPU. The same seed makes the
same weights and torch's global generator is left as it was. Weights are drawn wide
(``initializer_range``), so that next-token distributions are as uneven as a trained model's and two
tokens hardly ever tie. Any config field can be set by keyword.

The families stand for the kinds of cache that there are: full attention with learned positions
(GPT-2) and rotary ones (Llama), sliding windows (Gemma 3), a recurrent state (Mamba 2), and
recurrent and attention layers mixed (Qwen3-Next).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

VOCAB = 96
CONTEXT = 128
BOS, EOS = "<s>", "</s>"


def tiny_gpt2(seed: int = 0, vocab_size: int = VOCAB, **config: Any) -> PreTrainedModel:
    """Return a GPT-2: full attention, learned positions, no position beyond ``n_positions``."""
    fields = dict(n_embd=32, n_layer=2, n_head=2, n_positions=CONTEXT, initializer_range=0.3)
    return _build(GPT2LMHeadModel, GPT2Config(**_ids(vocab_size), **{**fields, **config}), seed)


def tiny_llama(seed: int = 0, vocab_size: int = VOCAB, **config: Any) -> PreTrainedModel:
    """Return a Llama: full attention, rotary positions, two query heads to one key head."""
    fields = dict(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )
    return _build(LlamaForCausalLM, LlamaConfig(**_ids(vocab_size), **{**fields, **config}), seed)


def tiny_gemma3(seed: int = 0, vocab_size: int = VOCAB, **config: Any) -> PreTrainedModel:
    """Return a Gemma 3: a layer with a sliding window of 8 positions, then a full one."""
    fields = dict(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )
    config = Gemma3TextConfig(**_ids(vocab_size), **{**fields, **config})
    return _build(Gemma3ForCausalLM, config, seed)


def tiny_mamba2(seed: int = 0, vocab_size: int = VOCAB, **config: Any) -> PreTrainedModel:
    """Return a Mamba 2: recurrent states only, no keys and values that could be cropped."""
    fields = dict(
        hidden_size=32,
        num_hidden_layers=2,
        state_size=16,
        num_heads=4,
        head_dim=16,
        expand=2,
        n_groups=1,
        chunk_size=16,
        initializer_range=0.3,
    )
    return _build(Mamba2ForCausalLM, Mamba2Config(**_ids(vocab_size), **{**fields, **config}), seed)


def tiny_qwen3_next(seed: int = 0, vocab_size: int = VOCAB, **config: Any) -> PreTrainedModel:
    """Return a Qwen3-Next: a linear-attention layer with a recurrent state, then a full one."""
    fields = dict(
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        num_experts=4,
        num_experts_per_tok=2,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        layer_types=["linear_attention", "full_attention"],
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )
    config = Qwen3NextConfig(**_ids(vocab_size), **{**fields, **config})
    return _build(Qwen3NextForCausalLM, config, seed)


FAMILIES = {
    "gpt2": tiny_gpt2,
    "llama": tiny_llama,
    "gemma3": tiny_gemma3,
    "mamba2": tiny_mamba2,
    "qwen3_next": tiny_qwen3_next,
}


def tiny_tokenizer(vocab_size: int = VOCAB, **options: Any) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer of exactly ``vocab_size`` ids (at least 4).

    Id 0 is ``<s>`` (BOS, never added by itself), id 1 ``</s>`` (EOS); then come the lower-case
    letters, the space, the digits, punctuation, capitals and the remaining bytes, as far as they
    fit, and whole words beyond 258. Text with bytes that don't fit loses them. ``options`` go to
    PreTrainedTokenizerFast.
    """
    first = "abcdefghijklmnopqrstuvwxyz 0123456789.,!?'\n"
    order = [ord(c) for c in first]
    order += [b for b in (*range(33, 127), *range(256)) if b not in order]
    shown = _byte_letters()
    tokens = [BOS, EOS] + [shown[b] for b in dict.fromkeys(order)]
    tokens += [f"word{n}" for n in range(vocab_size - len(tokens))]
    vocab = {token: i for i, token in enumerate(tokens[:vocab_size])}
    core = Tokenizer(BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BOS,
        eos_token=EOS,
        **{"clean_up_tokenization_spaces": False, **options},
    )


def save_tiny(
    folder: Path,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    **config: Any,
) -> Path:
    """Write a model (a tiny Llama unless given) and its tokenizer to ``folder`` and return it.

    Keywords overwrite fields of the written config.json, to make folders that lie.
    """
    model = tiny_llama() if model is None else model
    model.save_pretrained(folder)
    (tokenizer or tiny_tokenizer(model.config.vocab_size)).save_pretrained(folder)
    if config:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return Path(folder)


def _ids(vocab_size: int) -> dict[str, int]:
    return dict(vocab_size=vocab_size, bos_token_id=0, eos_token_id=1, pad_token_id=1)


def _build(kind: type[PreTrainedModel], config: PreTrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config).eval()


def _byte_letters() -> dict[int, str]:
    """Return the printable letter that byte-level BPE writes for each byte (as GPT-2 does)."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in visible}
    hidden = [b for b in range(256) if b not in letters]
    return letters | {b: chr(256 + n) for n, b in enumerate(hidden)}
