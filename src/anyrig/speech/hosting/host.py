"""The host: an engine in an environment of its own, spoken to in frames over two pipes.

    python -I host.py --engine xtts

One file on purpose, longer than others: it runs under the Python of that environment, where
anyrig is not installed, and imports nothing but the standard library until it is told to load.
Python 3.9 and newer. What libraries print goes to the error stream; frames go over a copy of the
output made before any library loads. A thread reads the input all the time: it answers pings while
the engine computes, and when the input ends, the parent is gone and so is the host.

Requests carry an `id`, answers carry it back:

    hello                               sent first by the host: protocol, engine, versions
    load     -> ready                   weights into a device
    voices   -> voices                  what it can speak with
    speak    -> audio ..., done         lines to samples, a frame for each part of a line
    convert  -> converted               a pickled voice to safetensors and JSON
    ping     -> pong                    at once, whatever it computes
    stop                                leave the rest of a `speak`
    bye                                 end

Any request may be answered by `error`: its kind is memory, lost, bad_input, unsafe or other.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import copy
import gc
import importlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

PROTOCOL = 1
MAGIC = b"ARH"
MAX_HEADER = 4 << 20
MAX_PAYLOAD = 256 << 20
_HEAD = struct.Struct(">3sBII")

# -- frames ----------------------------------------------------------------------------------------


class BadFrame(Exception):
    """What came over the pipe is no frame of this protocol."""


class Frame(NamedTuple):
    """A header of plain values, and bytes."""

    header: dict[str, Any]
    payload: bytes = b""


def write_frame(pipe: IO[bytes], header: dict[str, Any], payload: bytes = b"") -> None:
    """Send one frame."""
    text = json.dumps(header).encode("utf-8")
    if len(text) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
        raise BadFrame(f"a frame of {len(text)} and {len(payload)} bytes is too large to send")
    pipe.write(_HEAD.pack(MAGIC, PROTOCOL, len(text), len(payload)) + text)
    pipe.write(payload)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> Frame:
    """Receive one frame; EOFError when the pipe ends between two."""
    start = pipe.read(_HEAD.size)
    if not start:
        raise EOFError("the pipe has ended")
    if not start.startswith(MAGIC[: len(start)]):
        raise BadFrame(f"no frame begins with {start[:16]!r}")
    if len(start) < _HEAD.size:
        raise BadFrame("the pipe ended in the middle of a frame")
    _, version, header_length, payload_length = _HEAD.unpack(start)
    if version != PROTOCOL:
        raise BadFrame(f"the other end speaks version {version} of the protocol, not {PROTOCOL}")
    if header_length > MAX_HEADER or payload_length > MAX_PAYLOAD:
        raise BadFrame(f"a frame of {header_length} and {payload_length} bytes is too large")
    header = _exactly(pipe, header_length)
    payload = _exactly(pipe, payload_length)
    try:
        value = json.loads(header)
    except ValueError as error:
        raise BadFrame(f"a frame's header is not valid JSON: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadFrame("a frame's header has no type")
    return Frame(value, payload)


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length) if length else b""
    if len(data) < length:
        raise BadFrame("the pipe ended in the middle of a frame")
    return data


# -- what an engine is to the host -----------------------------------------------------------------


class Refused(Exception):
    """What was asked cannot be done, and why, for the person."""

    kind = "bad_input"


class Unsafe(Refused):
    """A pickle holds more than plain tensors: reading it may run code."""

    kind = "unsafe"


class Adapter:
    """One engine. `load` and `say` must be given; a package may bring its own as `module:Class`."""

    rate = 24000
    packages: tuple[str, ...] = ()
    """Distributions whose versions are told."""
    options: dict[str, Any]
    folder: str
    device: str

    def load(self, ask: dict[str, Any]) -> None:
        """Weights into a device. `ask` holds folder, device, precision, threads and options."""
        raise NotImplementedError

    def voices(self) -> list[str]:
        """Names of what it can speak with, samples in the folder `voices` included."""
        return samples_in(self.folder)

    def say(self, line: dict[str, Any]) -> Any:
        """The samples of one line: numbers from -1 to 1, or 16-bit integers."""
        raise NotImplementedError

    def parts(self, line: dict[str, Any]) -> Iterable[Any]:
        """The same in parts that follow on each other."""
        yield self.say(line)

    def speak(self, lines: Sequence[dict[str, Any]], stream: bool) -> Iterator[tuple[int, Any]]:
        """Parts of lines with their number, a line at a time, lines of one voice together."""
        order = sorted(range(len(lines)), key=lambda n: (str(lines[n].get("voice", "")), n))
        for number in order:
            sow(int(lines[number].get("seed", 0)))
            for part in self.parts(lines[number]) if stream else [self.say(lines[number])]:
                yield number, part

    def convert(self, source: str, target: str, unsafe: bool) -> list[str]:
        """A pickle as safetensors and JSON beside each other; their paths."""
        return convert_pickle(source, target, unsafe)


def module(name: str) -> Any:
    """A module by name; late, because each costs seconds."""
    return importlib.import_module(name)


def sow(seed: int) -> None:
    """Every source of chance, so that a line sounds the same whatever was said before it."""
    import random

    random.seed(seed)
    if "numpy" in sys.modules:
        module("numpy").random.seed(seed % (1 << 32))
    if "torch" in sys.modules:
        module("torch").manual_seed(seed)


def ready_device(ask: dict[str, Any]) -> str:
    """The device's word for torch, once torch is found to have it; threads and memory are held."""
    torch = module("torch")
    word = str(ask.get("device") or "cpu")
    kind = word.partition(":")[0]
    library = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    if kind != "cpu" and (library is None or not library.is_available()):
        raise Refused(
            f"torch {torch.__version__} of this environment cannot use {word}: "
            "install the engine again for that device, or take the CPU"
        )
    torch.set_num_threads(max(1, int(ask.get("threads") or 1)))
    budget = ask.get("budget_bytes")
    if budget and kind in ("cuda", "xpu"):
        limit: Any = getattr(torch, kind)
        if hasattr(limit, "set_per_process_memory_fraction"):  # torch.xpu has it from 2.10 on
            total = limit.get_device_properties(word).total_memory
            limit.set_per_process_memory_fraction(min(1.0, budget / total), word)
    return word


def precision_of(ask: dict[str, Any]) -> Any:
    """The precision for torch."""
    torch = module("torch")
    names = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return names.get(str(ask.get("precision")), torch.float32)


_SAMPLES = (".wav", ".flac", ".mp3", ".ogg")


def samples_in(folder: str) -> list[str]:
    """Names of the recordings in the folder `voices`: each is a voice for an engine that clones."""
    place = os.path.join(folder, "voices")
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [os.path.splitext(name)[0] for name in names if name.lower().endswith(_SAMPLES)]


def sample_of(folder: str, voice: str) -> str:
    """The recording behind a voice: a path, or a name in the folder `voices`; the first if none."""
    if voice.lower().endswith(_SAMPLES) and os.path.isfile(voice):
        return voice
    voice = voice or next(iter(samples_in(folder)), "")
    for ending in _SAMPLES:
        path = os.path.join(folder, "voices", voice + ending)
        if voice and os.path.isfile(path):
            return path
    known = ", ".join(samples_in(folder)) or "none"
    raise Refused(f"no voice {voice!r}; recordings in {os.path.join(folder, 'voices')}: {known}")


# -- pickled voices --------------------------------------------------------------------------------


def convert_pickle(source: str, target: str, unsafe: bool) -> list[str]:
    """Write `target`.safetensors and `target`.json; from then on the pickle is not read again."""
    torch = module("torch")
    try:
        value = torch.load(source, map_location="cpu", weights_only=not unsafe)
    except module("pickle").UnpicklingError as error:
        if unsafe:
            raise Refused(f"{source} cannot be read: {error}") from error
        raise Unsafe(
            f"{source} contains more than tensors: {str(error).splitlines()[0]}"
        ) from error
    tensors: dict[str, Any] = {}
    described = flatten(value, tensors)
    module("safetensors.torch").save_file(tensors, target + ".safetensors.part")
    with open(target + ".json.part", "w", encoding="utf-8") as file:
        json.dump({"format": 1, "source": os.path.basename(source), "value": described}, file)
    done = [target + ".safetensors", target + ".json"]
    for path in done:
        os.replace(path + ".part", path)
    return done


def flatten(value: Any, tensors: dict[str, Any]) -> Any:
    """What a value is made of, as plain JSON; its tensors go into a table."""
    torch = module("torch")
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        # Cloned: safetensors refuses tensors that share their memory.
        tensors[name] = value.detach().to("cpu").clone().contiguous()
        return {"tensor": name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"plain": value}
    layers = _layers(value)
    if layers is not None:
        return {"cache": [[flatten(one, tensors) for one in pair] for pair in layers]}
    if isinstance(value, dict):  # transformers' outputs are such, too
        plain = type(value) is dict or not type(value).__module__.startswith("transformers.")
        inside = {str(key): flatten(one, tensors) for key, one in value.items()}
        return {"dict": inside} if plain else {"output": inside, "name": type(value).__name__}
    if isinstance(value, (list, tuple)):
        inside_list = [flatten(one, tensors) for one in value]
        return {"list" if isinstance(value, list) else "tuple": inside_list}
    raise Refused(f"a {type(value).__name__} in this voice cannot be kept as plain tensors")


def _layers(value: Any) -> Any:
    """Keys and values of each layer, when a value is a cache of transformers, old or new."""
    if hasattr(value, "key_cache") and hasattr(value, "value_cache"):
        return [[value.key_cache[n], value.value_cache[n]] for n in range(len(value.key_cache))]
    if hasattr(value, "layers") and hasattr(value, "get_seq_length"):
        return [[layer.keys, layer.values] for layer in value.layers]
    return None


def read_voice(target: str, device: str) -> Any:
    """What `convert_pickle` wrote, with its tensors on a device."""
    tensors = module("safetensors.torch").load_file(target + ".safetensors", device=device)
    with open(target + ".json", encoding="utf-8") as file:
        return rebuild(json.load(file)["value"], tensors)


def rebuild(described: Any, tensors: dict[str, Any]) -> Any:
    """A value from its description. Only these few kinds can be made: no name is imported."""
    ((kind, inside),) = ((k, v) for k, v in described.items() if k != "name")
    if kind == "tensor":
        return tensors[inside]
    if kind == "plain":
        return inside
    if kind == "cache":
        cache = module("transformers.cache_utils").DynamicCache()
        for number, (key, value) in enumerate(inside):
            cache.update(rebuild(key, tensors), rebuild(value, tensors), number)
        return cache
    if kind in ("dict", "output"):
        table = {key: rebuild(one, tensors) for key, one in inside.items()}
        if kind == "dict":
            return table
        outputs = module("transformers.modeling_outputs")
        made = getattr(outputs, described["name"], outputs.BaseModelOutputWithPast)
        return made(**table)
    items = [rebuild(one, tensors) for one in inside]
    return items if kind == "list" else tuple(items)


# -- the engines -----------------------------------------------------------------------------------


class Xtts(Adapter):
    """XTTS v2 of coqui-tts: built-in speakers, or a voice from a recording."""

    packages = ("coqui-tts", "torch", "transformers")
    limits = {
        "en": 250, "de": 253, "fr": 273, "es": 239, "it": 213, "pt": 203, "pl": 224, "zh": 82,
        "ar": 166, "cs": 186, "ru": 182, "nl": 251, "tr": 226, "ja": 71, "hu": 224, "ko": 95,
        "hi": 150,
    }  # fmt: skip

    def load(self, ask: dict[str, Any]) -> None:
        """The checkpoint; its pickled speakers are not read."""
        self.folder, self.options = str(ask["folder"]), ask["options"]
        self.device = ready_device(ask)
        config = module("TTS.tts.configs.xtts_config").XttsConfig()
        config.load_json(os.path.join(self.folder, "config.json"))
        self.rate = int(config.model_args.output_sample_rate)
        self.model = module("TTS.tts.models.xtts").Xtts(config)
        self.model.load_checkpoint(
            config,
            checkpoint_dir=self.folder,
            speaker_file_path=os.path.join(self.folder, "speakers-are-read-from.safetensors"),
            use_deepspeed=False,
            eval=True,
        )
        self.model.to(self.device)
        self._latents: dict[str, Any] = {}
        self._speakers: dict[str, Any] = {}
        place = os.path.join(self.folder, "speakers_xtts")
        if os.path.isfile(place + ".json"):
            self._speakers = read_voice(place, self.device)

    def voices(self) -> list[str]:
        """Converted speakers, then recordings."""
        return [*self._speakers, *samples_in(self.folder)]

    def _voice(self, name: str) -> Any:
        if not name and self._speakers:
            name = next(iter(self._speakers))
        if name in self._speakers:
            return tuple(self._speakers[name][k] for k in ("gpt_cond_latent", "speaker_embedding"))
        if name not in self._latents:
            self._latents[name] = self.model.get_conditioning_latents(
                audio_path=[sample_of(self.folder, name)],
                max_ref_length=30,
                gpt_cond_len=6,
                gpt_cond_chunk_len=6,
                sound_norm_refs=False,
                load_sr=22050,
            )
        return self._latents[name]

    def _given(self, line: dict[str, Any]) -> dict[str, Any]:
        options = self.options
        return {
            "temperature": options.get("temperature", 0.75),
            "repetition_penalty": options.get("repetition_penalty", 10.0),
            "top_k": options.get("top_k", 50),
            "length_penalty": options.get("length_penalty", 1.0),
            "top_p": options.get("top_p", 0.85),
            "speed": line.get("rate", 1.0),
            "enable_text_splitting": False,
        }

    def _pieces(self, line: dict[str, Any]) -> Iterator[tuple[str, str]]:
        language = str(line.get("language", "en"))
        code = "zh-cn" if language == "zh" else language
        for piece in cut(str(line["text"]), self.limits.get(language, 150)):
            yield piece, code

    def say(self, line: dict[str, Any]) -> Any:
        """One line; more calls where the language's limit is below its length.

        With the option `stream` the parts are joined, so that a line is the same either way.
        """
        if self.options.get("stream"):
            return joined(self.parts(line))
        latent, speaker = self._voice(str(line.get("voice", "")))
        given = {**self._given(line), "num_beams": self.options.get("num_beams", 1)}
        with module("torch").inference_mode():
            return joined(
                self.model.inference(text, code, latent, speaker, **given)["wav"]
                for text, code in self._pieces(line)
            )

    def parts(self, line: dict[str, Any]) -> Iterator[Any]:
        """About half a second at a time."""
        latent, speaker = self._voice(str(line.get("voice", "")))
        with module("torch").inference_mode():
            for text, code in self._pieces(line):
                yield from self.model.inference_stream(
                    text, code, latent, speaker, stream_chunk_size=20, overlap_wav_len=1024,
                    **self._given(line),
                )  # fmt: skip


class IndexTts(Adapter):
    """IndexTTS2: every voice is a recording. Its cache holds one voice, so lines go by voice."""

    rate = 22050
    packages = ("indextts2-inference", "indextts", "torch", "transformers")

    def load(self, ask: dict[str, Any]) -> None:
        """The checkpoint and what belongs to it."""
        self.folder, self.options = str(ask["folder"]), ask["options"]
        self.device = ready_device(ask)
        half = ask.get("precision") if self.device not in ("cpu", "mps") else "fp32"
        self.model = module("indextts.infer_v2").IndexTTS2(
            cfg_path=os.path.join(self.folder, "config.yaml"),
            model_dir=self.folder,
            use_fp16=half == "fp16",
            device=self.device,
            use_cuda_kernel=False,
        )
        if half == "bf16":  # the format of its autocast regions; it has no argument for this one
            self.model.dtype = module("torch").bfloat16

    def say(self, line: dict[str, Any]) -> Any:
        """One line, as 16-bit integers of shape [samples, 1]."""
        names = (
            "temperature", "top_p", "top_k", "num_beams", "repetition_penalty", "emo_alpha",
            "max_mel_tokens",
        )  # fmt: skip
        given = {name: self.options[name] for name in names if name in self.options}
        if "max_text_tokens_per_sentence" in self.options:  # the second version calls it a segment
            given["max_text_tokens_per_segment"] = self.options["max_text_tokens_per_sentence"]
        self.rate, samples = self.model.infer(
            spk_audio_prompt=sample_of(self.folder, str(line.get("voice", ""))),
            text=str(line["text"]),
            output_path=None,
            **given,
        )
        return samples


class VibeVoiceRealtime(Adapter):
    """VibeVoice-Realtime: voices are prefilled caches, read from safetensors alone."""

    packages = ("vibevoice", "torch", "transformers")

    def load(self, ask: dict[str, Any]) -> None:
        """The model with the scheduler of its authors' server."""
        self.folder, self.options = str(ask["folder"]), ask["options"]
        self.device = ready_device(ask)
        streaming = module("vibevoice.modular.modeling_vibevoice_streaming_inference")
        processor = module("vibevoice.processor.vibevoice_streaming_processor")
        self.processor = processor.VibeVoiceStreamingProcessor.from_pretrained(self.folder)
        self.model = self._model(
            streaming.VibeVoiceStreamingForConditionalGenerationInference, precision_of(ask)
        )
        self.model.eval()
        inner = self.model.model
        inner.noise_scheduler = inner.noise_scheduler.from_config(
            inner.noise_scheduler.config,
            algorithm_type="sde-dpmsolver++",
            beta_schedule="squaredcos_cap_v2",
        )
        self.model.set_ddpm_inference_steps(num_steps=int(self.options.get("steps", 5)))
        self._bundles: dict[str, Any] = {}

    def _model(self, kind: Any, precision: Any) -> Any:
        """Flash attention where it loads, as its authors test it; else torch's own."""
        mps = self.device == "mps"
        tries = ["flash_attention_2", "sdpa"] if self.device.startswith("cuda") else ["sdpa"]
        for attention in tries:
            try:
                model = kind.from_pretrained(
                    self.folder,
                    torch_dtype=precision,
                    device_map=None if mps else self.device,
                    attn_implementation=attention,
                )
                return model.to("mps") if mps else model
            except (ImportError, ValueError):
                if attention == tries[-1]:
                    raise
        raise AssertionError("one of the two is tried last")

    def voices(self) -> list[str]:
        """Converted bundles."""
        place = os.path.join(self.folder, "voices")
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        return [name[:-5] for name in names if name.endswith(".json")]

    def _bundle(self, name: str) -> Any:
        name = name or next(iter(self.voices()), "")
        if name not in self.voices():
            raise Refused(f"no voice {name!r}; there are: {', '.join(self.voices()) or 'none'}")
        if name not in self._bundles:
            place = os.path.join(self.folder, "voices", name)
            self._bundles[name] = read_voice(place, self.device)
        return self._bundles[name]

    def _generate(self, line: dict[str, Any], **more: Any) -> Any:
        bundle = self._bundle(str(line.get("voice", "")))
        text = str(line["text"])
        for curly, plain in (("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"')):
            text = text.replace(curly, plain)
        inputs = self.processor.process_input_with_cached_prompt(
            text=text, cached_prompt=bundle, padding=True, return_tensors="pt",
            return_attention_mask=True,
        )  # fmt: skip
        tensor = module("torch").Tensor
        inputs = {
            key: value.to(self.device) if isinstance(value, tensor) else value
            for key, value in inputs.items()
        }
        return self.model.generate(
            **inputs,
            max_new_tokens=None,
            cfg_scale=self.options.get("cfg_scale", 1.5),
            tokenizer=self.processor.tokenizer,
            generation_config={"do_sample": False},
            verbose=False,
            refresh_negative=True,
            all_prefilled_outputs=copy.deepcopy(bundle),  # generate writes into it
            **more,
        )

    def say(self, line: dict[str, Any]) -> Any:
        """One line."""
        return self._generate(line).speech_outputs[0]

    def parts(self, line: dict[str, Any]) -> Iterator[Any]:
        """Frame by frame: the model runs in a thread and a queue of its own hands them over."""
        streamer = module("vibevoice.modular.streamer").AudioStreamer(batch_size=1)
        failed: list[BaseException] = []
        left = threading.Event()

        def work() -> None:
            try:
                self._generate(line, audio_streamer=streamer, stop_check_fn=left.is_set)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever listens
                failed.append(error)
            finally:
                streamer.end()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield from streamer.get_stream(0)
        finally:
            left.set()
            thread.join()
        if failed:
            raise failed[0]


ADAPTERS: dict[str, type[Adapter]] = {
    "xtts": Xtts,
    "indextts": IndexTts,
    "vibevoice-realtime": VibeVoiceRealtime,
}


def adapter_of(name: str) -> Adapter:
    """One of ours, or `module:Class` that the environment brings."""
    if name in ADAPTERS:
        return ADAPTERS[name]()
    place, _, kind = name.partition(":")
    made: Adapter = getattr(module(place), kind)()
    return made


def cut(text: str, limit: int) -> Iterator[str]:
    """Pieces no longer than a limit, cut behind a mark or at a space where there is one."""
    while len(text) > limit:
        marks = [text.rfind(mark, 0, limit) + 1 for mark in ",;:.!?\u3001\u3002\uff0c"]
        place = max(marks) or text.rfind(" ", 0, limit) or limit
        place = place if place > 0 else limit
        yield text[:place].strip()
        text = text[place:].strip()
    if text:
        yield text


def joined(pieces: Iterable[Any]) -> Any:
    """Samples one after the other."""
    return module("numpy").concatenate([flat(piece) for piece in pieces])


def flat(samples: Any) -> Any:
    """Samples of any shape and kind as one row of float32."""
    numpy = module("numpy")
    if hasattr(samples, "detach"):
        samples = samples.detach().to("cpu")
        samples = samples.float() if samples.is_floating_point() else samples
    row = numpy.asarray(samples).reshape(-1)
    if row.dtype.kind in "iu":
        return (row / 32768.0).astype(numpy.float32)
    return row.astype(numpy.float32)


def packed(samples: Any) -> bytes:
    """Samples as little-endian 32-bit floats; an array of the standard library needs no numpy."""
    if isinstance(samples, array.array) and samples.typecode == "f":
        if sys.byteorder == "big":
            samples = samples[:]
            samples.byteswap()
        return bytes(samples.tobytes())
    data: bytes = flat(samples).astype("<f4").tobytes()
    return data


# -- serving ---------------------------------------------------------------------------------------


class Serving:
    """One parent, one engine."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes], engine: str) -> None:
        self._reading, self._writing, self._engine = reading, writing, engine
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        self._adapter = Adapter()
        self._busy = ""

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """A frame to the parent; both threads may."""
        with self._lock:
            write_frame(self._writing, header, payload)

    def run(self) -> int:
        """Until the parent is gone or says bye, which ends the process."""
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._adapter = adapter_of(self._engine)
        except Exception as error:  # noqa: BLE001 - whatever a package throws is the answer
            self.send(self._error(0, error))
            return 1
        self.send(
            {
                "type": "hello",
                "protocol": PROTOCOL,
                "engine": self._engine,
                "python": ".".join(str(n) for n in sys.version_info[:3]),
                "versions": versions(self._adapter.packages),
                "pid": os.getpid(),
            }
        )
        while True:
            ask = self._inbox.get()
            if not self._answer(ask):
                return 3

    def _read(self) -> None:
        """Requests as they come. The end of the input is the end of the process."""
        code = 0
        try:
            while True:
                header = read_frame(self._reading).header
                if header["type"] == "ping":
                    self.send({"type": "pong", "id": header.get("id", 0), "busy": self._busy})
                elif header["type"] == "stop":
                    self._stopped.add(int(header.get("id", 0)))
                elif header["type"] == "bye":
                    return
                else:
                    self._inbox.put(header)
        except (EOFError, OSError):
            pass
        except BadFrame as error:
            code = 2
            with contextlib.suppress(OSError):
                self.send({"type": "error", "id": 0, "kind": "other", "said": str(error)})
        finally:
            os._exit(code)

    def _answer(self, ask: dict[str, Any]) -> bool:
        """Do one thing; False when the device is lost and only a new process helps."""
        number = int(ask.get("id", 0))
        doing = {
            "load": self._load, "voices": self._voices, "speak": self._speak,
            "convert": self._convert,
        }.get(ask["type"])  # fmt: skip
        self._busy = ask["type"]
        told: dict[str, Any] | None = None
        try:
            if doing is None:
                raise Refused(f"no request {ask['type']!r}")
            doing(number, ask)
        except Exception as error:  # noqa: BLE001 - whatever a library throws is the answer
            told = self._error(number, error)
            # Frames hold tensors: let them go before memory is given back.
            traceback.clear_frames(error.__traceback__)
        self._busy = ""
        if told is not None:
            if told["kind"] == "memory":
                give_back()
            self.send(told)
        return told is None or told["kind"] != "lost"

    def _load(self, number: int, ask: dict[str, Any]) -> None:
        start = time.perf_counter()
        self._adapter.load(ask)
        self.send(
            {
                "type": "ready",
                "id": number,
                "seconds": time.perf_counter() - start,
                "rate": self._adapter.rate,
                "voices": self._adapter.voices(),
            }
        )

    def _voices(self, number: int, ask: dict[str, Any]) -> None:
        self.send({"type": "voices", "id": number, "voices": self._adapter.voices()})

    def _speak(self, number: int, ask: dict[str, Any]) -> None:
        """A frame for each part; a line that streams ends with one that has no samples."""
        lines, stream = list(ask["lines"]), bool(ask.get("stream"))
        last = -1
        for line, samples in self._adapter.speak(lines, stream):
            if stream and last not in (-1, line):
                self._part(number, last, b"", True)
            last = line
            # Whole lines are told as done at once: the next may be the one that kills.
            self._part(number, line, packed(samples), not stream)
            if number in self._stopped:
                break
        else:
            if stream and last >= 0:
                self._part(number, last, b"", True)
        self._stopped.discard(number)
        self.send({"type": "done", "id": number})

    def _part(self, number: int, line: int, data: bytes, last: bool) -> None:
        """Samples in frames below the limit."""
        size = MAX_PAYLOAD // 16
        for start in range(0, max(1, len(data)), size):
            header = {"type": "audio", "id": number, "line": line, "rate": self._adapter.rate}
            header.update(format="f4", last=last and start + size >= len(data))
            self.send(header, data[start : start + size])

    def _convert(self, number: int, ask: dict[str, Any]) -> None:
        done = self._adapter.convert(ask["source"], ask["target"], bool(ask.get("unsafe")))
        self.send({"type": "converted", "id": number, "files": done})

    def _error(self, number: int, error: Exception) -> dict[str, Any]:
        return {
            "type": "error",
            "id": number,
            "kind": kind_of(error),
            "said": (str(error) or type(error).__name__)[:4000],
            "class": type(error).__name__,
            # Frameworks tell of memory and lost devices by such errors: the parent reads the words.
            "worded": isinstance(error, RuntimeError),
            "traceback": traceback.format_exc()[-20000:],
        }


def kind_of(error: Exception) -> str:
    """What sort of failure it is, by type alone."""
    if isinstance(error, Refused):
        return error.kind
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, MemoryError) or "OutOfMemoryError" in names:
        return "memory"
    return "lost" if "DeviceLostError" in names else "other"


def give_back() -> None:
    """Memory that the framework keeps and nothing uses."""
    gc.collect()
    torch = sys.modules.get("torch")
    for name in ("cuda", "xpu", "mps"):
        library = getattr(torch, name, None)
        with contextlib.suppress(Exception):
            if library is not None and (name == "mps" or library.is_available()):
                library.empty_cache()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Of the distributions that are installed."""
    metadata = module("importlib.metadata")
    found = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Copies of input and output; after that prints go to the error stream."""
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # On Windows a thread that waits on the standard input keeps other libraries from loading.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reading, writing


def main(words: Sequence[str] | None = None) -> int:
    """Serve one parent."""
    parser = argparse.ArgumentParser(description="An engine in its own environment.")
    parser.add_argument("--engine", required=True)
    chosen = parser.parse_args(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    reading, writing = take_pipes()
    return Serving(reading, writing, chosen.engine).run()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the thread that reads must not hold the end up
