"""A small random checkpoint of IndexTTS, built by the Python of its own environment.

    python build_indextts.py FOLDER           version 2.5
    python build_indextts.py FOLDER HUB       version 2.0, and the model hub's cache that it reads

Everything is small but for the widths and numbers of layers that the packages have built in.
"""

from __future__ import annotations

import base64
import importlib
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


SHARPNESS = 10.0
"""What the layers of the language model are multiplied by."""
MORE_2 = """
dataset: {bpe_model: bpe.model}
gpt:
  model_dim: 1280
  condition_type: conformer_perceiver
  condition_module:
    output_size: 64
    linear_units: 64
    attention_heads: 2
    num_blocks: 1
    input_layer: conv2d2
    perceiver_mult: 2
s2mel:
  reg_loss_type: l1
  length_regulator: {is_discrete: false, n_codebooks: 1}
  DiT: {f0_condition: false, style_as_token: false}
qwen_emo_path: qwen0.6bemo4-merge/
vocoder: {type: bigvgan}
"""
"""What version 2.0 has besides, or otherwise: a layer behind its language model is 1,280 wide."""


class Builder:
    """Writes files of a package's modules into a folder."""

    def __init__(self, package: str, folder: str, config: Any) -> None:
        self.package, self.folder, self.config = package, folder, config

    def load(self, module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{self.package}.{module}"), name)

    def path(self, *parts: str) -> str:
        place = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    def save(self, content: Any, *parts: str) -> None:
        import torch

        torch.save(content, self.path(*parts))

    def write_language_model(self) -> None:
        model = self.load("gpt.model_v2", "UnifiedVoice")(**self.config.gpt)
        # As it is initialised, a layer hardly hears what came before: no emotion would be heard.
        weights = {
            name: SHARPNESS * one if name.startswith("gpt.h.") and one.ndim == 2 else one
            for name, one in scatter(model.state_dict()).items()
        }
        self.save(weights, "gpt.pth")

    def write_acoustic_model(self, **options: bool) -> None:
        model = self.load("s2mel.modules.commons", "MyModel")(self.config.s2mel, **options)
        net = {name: scatter(module.state_dict()) for name, module in model.models.items()}
        self.save({"net": net}, "s2mel.pth")

    def write_matrices(self) -> None:
        import torch

        width = self.config.gpt.model_dim
        stats = {"mean": torch.zeros(1024), "var": torch.ones(1024)}
        self.save(stats, "wav2vec2bert_stats.pt")
        self.save(torch.randn(16, 192), "feat1.pt")
        self.save(torch.randn(16, width), "feat2.pt")

    def write_vocoder(self, *folder: str) -> None:
        with open(self.path(*folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(BIGVGAN, file)
        module = "s2mel.modules.bigvgan.bigvgan"
        hparams = self.load(module, "load_hparams_from_json")(file.name)
        vocoder = self.load(module, "BigVGAN")(hparams)
        self.save({"generator": vocoder.state_dict()}, *folder, "bigvgan_generator.pt")

    def write_speaker_encoder(self, *path: str) -> None:
        model = self.load("s2mel.modules.campplus.DTDNN", "CAMPPlus")
        self.save(model(feat_dim=80, embedding_size=192).state_dict(), *path)

    def write_speech_encoder(self, *folder: str) -> None:
        from safetensors.torch import save_file
        from transformers import SeamlessM4TFeatureExtractor, Wav2Vec2BertConfig, Wav2Vec2BertModel

        config = Wav2Vec2BertConfig(
            hidden_size=1024, num_hidden_layers=17, num_attention_heads=4, intermediate_size=16,
            conv_depthwise_kernel_size=3,
        )  # fmt: skip
        config.save_pretrained(self.path(*folder, ""))
        state = Wav2Vec2BertModel(config).state_dict()
        tensors = {name: one.contiguous() for name, one in state.items()}
        save_file(tensors, self.path(*folder, "model.safetensors"))
        extractor = SeamlessM4TFeatureExtractor(feature_size=80, num_mel_bins=80, stride=2)
        extractor.save_pretrained(self.path(*folder, ""))

    def write_emotions_of_texts(self, *folder: str) -> None:
        """A Qwen that writes a word or two: half of its tokens end a text."""
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

        words = {
            word: number for number, word in enumerate(["<end>", *(f"w{n}" for n in range(63))])
        }
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="<end>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, eos_token="<end>", unk_token="<end>"
        )
        fast.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
        fast.save_pretrained(self.path(*folder, ""))
        config = Qwen3Config(
            vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, head_dim=16, eos_token_id=0,
        )  # fmt: skip
        model = Qwen3ForCausalLM(config)
        model.generation_config.eos_token_id = list(range(0, 64, 2))
        model.save_pretrained(self.path(*folder, ""))

    def write_pieces(self, *path: str) -> None:
        from sentencepiece import SentencePieceTrainer  # type: ignore[import-not-found]

        corpus = self.path("corpus.txt")
        with open(corpus, "w", encoding="utf-8") as file:
            for first in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
                file.write(
                    f"{first}O {first}NE, T{first}O! WH{first}? HELLO 'TH{first}RE' - AGAIN.\n"
                )
        SentencePieceTrainer.train(
            input=corpus, model_prefix=self.path(*path).removesuffix(".model"), vocab_size=80,
            hard_vocab_limit=False,
        )  # fmt: skip


def scatter(state: dict[str, Any]) -> dict[str, Any]:
    """Zeros, as layers are initialised to, would make every option silent."""
    import torch

    return {
        name: torch.randn_like(one) * 0.05 if one.is_floating_point() and not one.any() else one
        for name, one in state.items()
    }


def build_25(folder: str) -> None:
    from omegaconf import OmegaConf

    builder = Builder("indextts25", folder, OmegaConf.create(CONFIG))
    builder.write_language_model()
    builder.write_acoustic_model()
    builder.write_matrices()
    codec = builder.load("codec.models", "EnhancedCodec")(**builder.config.semantic_codec)
    builder.save({"model": scatter(codec.state_dict())}, "codec.pth")
    tokens = "multilingual_zh_ja_yue_char_del.tiktoken"
    with open(builder.path(tokens), "w", encoding="ascii") as file:
        for byte in range(256):
            file.write(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n")
    builder.write_speech_encoder("hf_cache", "w2v-bert-2.0")
    builder.write_speaker_encoder("hf_cache", "campplus_cn_common.bin")
    builder.write_vocoder("hf_cache", "bigvgan")
    OmegaConf.save(builder.config, builder.path("config.yaml"))


def build_20(folder: str, hub: str) -> None:
    from omegaconf import OmegaConf
    from safetensors.torch import save_file

    config = OmegaConf.merge(OmegaConf.create(CONFIG), OmegaConf.create(MORE_2))
    config.vocoder.name = "nvidia/bigvgan_v2_22khz_80band_256x"
    builder = Builder("indextts", folder, config)
    builder.write_language_model()
    builder.write_acoustic_model(use_gpt_latent=True)
    builder.write_matrices()
    builder.write_pieces("bpe.model")
    builder.write_emotions_of_texts("qwen0.6bemo4-merge")
    OmegaConf.save(config, builder.path("config.yaml"))
    builder.folder = hub
    builder.write_speech_encoder(*snapshot(hub, "facebook/w2v-bert-2.0"))
    builder.write_speaker_encoder(*snapshot(hub, "funasr/campplus"), "campplus_cn_common.bin")
    builder.write_vocoder(*snapshot(hub, config.vocoder.name))
    codec = builder.load("utils.maskgct_utils", "build_semantic_codec")(config.semantic_codec)
    tensors = {name: one.contiguous() for name, one in scatter(codec.state_dict()).items()}
    file = (*snapshot(hub, "amphion/MaskGCT"), "semantic_codec", "model.safetensors")
    save_file(tensors, builder.path(*file))


def snapshot(hub: str, repository: str) -> tuple[str, ...]:
    """The folder of a downloaded repository in the hub's cache."""
    name = f"models--{repository.replace('/', '--')}"
    os.makedirs(os.path.join(hub, name, "refs"))
    with open(os.path.join(hub, name, "refs", "main"), "w", encoding="ascii") as file:
        file.write("0" * 40)
    return name, "snapshots", "0" * 40


if __name__ == "__main__":
    import torch

    torch.manual_seed(1)
    if len(sys.argv) > 2:
        build_20(sys.argv[1], sys.argv[2])
    else:
        build_25(sys.argv[1])
