"""Qualcomm: Adreno GPUs, which DirectX lists and no torch build supports."""

from __future__ import annotations

from anyrig.devices.vendor import Vendor


class Qualcomm(Vendor):
    name = "qualcomm"
    title = "Qualcomm"
    pci_vendors = (0x5143, 0x4D4F4351)
    onnx_packages = {"onnxruntime-qnn": ("QNNExecutionProvider",)}


VENDOR = Qualcomm()
