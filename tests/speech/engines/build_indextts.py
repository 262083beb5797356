"""A small random checkpoint of IndexTTS 2.5, built by the Python of its own environment.

    python build_indextts.py FOLDER

Everything is small but for w2v-bert, whose width and number of layers the package has built in.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

CONFIG = """
gpt:
  model_dim: 64
  max_mel_tokens: 400
  max_text_tokens: 200
  heads: 2
  layers: 2
  number_text_tokens: 2000
  number_mel_codes: 130
  start_mel_token: 128
  stop_mel_token: 129
  start_text_token: 0
  stop_text_token: 1
  max_conditioning_inputs: 4
  emo_condition_module:
    output_size: 64
    linear_units: 64
    attention_heads: 2
    num_blocks: 1
    input_layer: conv2d2
    perceiver_mult: 2
semantic_codec:
  codebook_size: 128
  hidden_size: 1024
  codebook_dim: 8
  vocos_dim: 32
  vocos_intermediate_dim: 64
  vocos_num_layers: 1
s2mel:
  preprocess_params:
    sr: 22050
    spect_params: {n_fft: 1024, win_length: 1024, hop_length: 256, n_mels: 80, fmin: 0}
  dit_type: DiT
  style_encoder: {dim: 192}
  length_regulator:
    channels: 64
    in_channels: 1024
    sampling_ratios: [1, 1]
    content_codebook_size: 128
  DiT:
    hidden_dim: 64
    num_heads: 2
    depth: 2
    class_dropout_prob: 0.1
    in_channels: 80
    style_condition: true
    final_layer_type: wavenet
    content_dim: 64
    content_codebook_size: 128
    content_type: discrete
    is_causal: false
    long_skip_connection: true
    uvit_skip_connection: true
    time_as_token: false
    style_as_token: false
  wavenet:
    hidden_dim: 64
    num_layers: 2
    kernel_size: 5
    dilation_rate: 1
    p_dropout: 0.2
    style_condition: true
gpt_checkpoint: gpt.pth
s2mel_checkpoint: s2mel.pth
w2v_stat: wav2vec2bert_stats.pt
emo_matrix: feat2.pt
spk_matrix: feat1.pt
emo_num: [2, 2, 2, 2, 2, 2, 2, 2]
"""
BIGVGAN = {
    "resblock": "1", "num_mels": 80, "upsample_initial_channel": 32, "upsample_rates": [8, 8, 4],
    "upsample_kernel_sizes": [16, 16, 8], "resblock_kernel_sizes": [3],
    "resblock_dilation_sizes": [[1, 3, 5]], "activation": "snakebeta", "snake_logscale": True,
    "use_bias_at_final": False, "use_tanh_at_final": False,
}  # fmt: skip


def main(folder: str) -> None:
    import torch
    from indextts25.codec.models import EnhancedCodec  # type: ignore[import-not-found]
    from indextts25.gpt.model_v2 import UnifiedVoice  # type: ignore[import-not-found]
    from indextts25.s2mel.modules.bigvgan.bigvgan import (  # type: ignore[import-not-found]
        BigVGAN,
        load_hparams_from_json,
    )
    from indextts25.s2mel.modules.campplus.DTDNN import CAMPPlus  # type: ignore[import-not-found]
    from indextts25.s2mel.modules.commons import MyModel  # type: ignore[import-not-found]
    from omegaconf import OmegaConf
    from safetensors.torch import save_file
    from transformers import SeamlessM4TFeatureExtractor, Wav2Vec2BertConfig, Wav2Vec2BertModel

    torch.manual_seed(1)

    def path(*parts: str) -> str:
        place = os.path.join(folder, *parts)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    def scatter(state: dict[str, Any]) -> dict[str, Any]:
        """Zeros, as layers are initialised to, would make every option silent."""
        return {
            name: torch.randn_like(one) * 0.05 if one.is_floating_point() and not one.any() else one
            for name, one in state.items()
        }

    with open(path("config.yaml"), "w", encoding="utf-8") as file:
        file.write(CONFIG)
    config: Any = OmegaConf.create(CONFIG)
    weights = scatter(UnifiedVoice(**config.gpt).state_dict())
    # As it is initialised, a layer hardly hears what came before: no emotion would be heard.
    louder = {
        name: 10 * one if name.startswith("gpt.h.") and one.ndim == 2 else one
        for name, one in weights.items()
    }
    torch.save(louder, path("gpt.pth"))
    codec = EnhancedCodec(**config.semantic_codec)
    torch.save({"model": scatter(codec.state_dict())}, path("codec.pth"))
    s2mel = MyModel(config.s2mel)
    net = {name: scatter(module.state_dict()) for name, module in s2mel.models.items()}
    torch.save({"net": net}, path("s2mel.pth"))
    torch.save({"mean": torch.zeros(1024), "var": torch.ones(1024)}, path("wav2vec2bert_stats.pt"))
    torch.save(torch.randn(16, 192), path("feat1.pt"))
    torch.save(torch.randn(16, 64), path("feat2.pt"))
    with open(path("multilingual_zh_ja_yue_char_del.tiktoken"), "w", encoding="ascii") as file:
        for byte in range(256):
            file.write(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n")
    bert = Wav2Vec2BertConfig(
        hidden_size=1024, num_hidden_layers=17, num_attention_heads=4, intermediate_size=16,
        conv_depthwise_kernel_size=3,
    )  # fmt: skip
    bert.save_pretrained(path("hf_cache", "w2v-bert-2.0", ""))
    layers = {name: one.contiguous() for name, one in Wav2Vec2BertModel(bert).state_dict().items()}
    save_file(layers, path("hf_cache", "w2v-bert-2.0", "model.safetensors"))
    extractor = SeamlessM4TFeatureExtractor(feature_size=80, num_mel_bins=80, stride=2)
    extractor.save_pretrained(path("hf_cache", "w2v-bert-2.0", ""))
    campplus = CAMPPlus(feat_dim=80, embedding_size=192)
    torch.save(campplus.state_dict(), path("hf_cache", "campplus_cn_common.bin"))
    with open(path("hf_cache", "bigvgan", "config.json"), "w", encoding="utf-8") as file:
        json.dump(BIGVGAN, file)
    vocoder = BigVGAN(load_hparams_from_json(file.name))
    torch.save(
        {"generator": vocoder.state_dict()}, path("hf_cache", "bigvgan", "bigvgan_generator.pt")
    )


if __name__ == "__main__":
    main(sys.argv[1])
