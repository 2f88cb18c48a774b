"""Ten architectures of `transformers`, small and random, as the files of a user."""

from __future__ import annotations

_SMALL = "num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128"
_TEXT = f"{_SMALL}, vocab_size=128, max_position_embeddings=64"
_T5 = "num_layers=2, d_model=64, num_heads=4, d_kv=16, d_ff=128, vocab_size=128, decoder_start_token_id=0"
_IDS = "torch.randint(0, 128, (2, 16))"

_WINDOWS = "attention_window=[8, 8], max_position_embeddings=66, pad_token_id=0"

CONFIGS: dict[str, tuple[str, str]] = {
    "bert": (_TEXT, f"(({_IDS}),)"),
    "gpt2": ("n_layer=2, n_embd=64, n_head=4, n_positions=64, vocab_size=128", f"(({_IDS}),)"),
    "llama": (f"{_TEXT}, num_key_value_heads=2", f"(({_IDS}),)"),
    "mixtral": (f"{_TEXT}, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2", f"(({_IDS}),)"),
    "t5": (_T5, f'{{"input_ids": {_IDS}, "decoder_input_ids": {_IDS}}}'),
    "vit": (f"{_SMALL}, image_size=32, patch_size=8", "(torch.randn(2, 3, 32, 32),)"),
    "distilbert": ("n_layers=2, dim=64, n_heads=4, hidden_dim=128, vocab_size=128", f"(({_IDS}),)"),
    "longformer": (f"{_SMALL}, vocab_size=128, {_WINDOWS}", f"(({_IDS}),)"),
    "opt": (f"{_TEXT}, ffn_dim=128, word_embed_proj_dim=64", f"(({_IDS}),)"),
    "reformer": (
        'attn_layers=["lsh", "local"], hidden_size=64, num_attention_heads=2, attention_head_size=32, '
        "feed_forward_size=128, vocab_size=128, max_position_embeddings=64, axial_pos_shape=[8, 8], "
        "axial_pos_embds_dim=[32, 32], lsh_attn_chunk_length=8, local_attn_chunk_length=8, num_buckets=4, "
        "is_decoder=True",
        f"(({_IDS}),)",
    ),
}
"""Settings of the configuration, and the inputs, by the architecture's name in `transformers`."""

_FILE = """\
import torch
import transformers

config = transformers.AutoConfig.for_model("{name}", {settings})
model = transformers.AutoModel.from_config(config).eval()
inputs = {inputs}
"""

ARCHITECTURES = {
    name: _FILE.format(name=name, settings=settings, inputs=inputs) for name, (settings, inputs) in CONFIGS.items()
}
