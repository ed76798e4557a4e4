"""Addresses of machines: four dotted numbers, six and more with colons, those of network cards."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from stepscope.model.redact.pattern import Pattern

_MAC = Pattern(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<glue>[:-])(?:[0-9A-Fa-f]{2}(?P=glue)){4}[0-9A-Fa-f]{2}(?![\w:-])"
)
_QUAD = Pattern(
    r"(?P<before>(?:[A-Za-z_]{1,16}\\{0,4}[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}\\{0,4}[(\"']?"
    r"|//|@|==|>=|<=|~=|[^\s])?)"
    r"(?<![\w.])(?P<quad>(?:\d{1,3}\.){3}\d{1,3})"
    r"(?P<after>:\d{1,5}(?!\d)|/\d{1,2}(?!\d)|[-+](?:\d{1,3}[-+])?(?:cu|cuda|cp|rc|dev|post|ga)\d)?"
    r"(?![\w]|\.\d|\.[a-z]+\d)"
)
# `fe80::1`: one group behind, so the first must look like a network's and not like a namespace's.
_SHORT_SIX = Pattern(
    r"(?<![\w:.])(?:fe[89ab]0|f[cd](?:[0-9][0-9a-f]|[a-f][0-9])|[23](?=[0-9a-f]{0,2}[0-9])[0-9a-f]{3})"
    r"::[0-9a-f]{1,4}(?:%\w{1,16})?(?![\w:])",
    re.IGNORECASE,
)
_SIX = Pattern(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4})?(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?:%\w+)?(?![\w:])")
# What stands before four dotted numbers says whether they are a version or an address.
_VERSION_WORDS = Pattern(
    r"(?<![A-Za-z])(?:v|ver|\w*version|release|driver|cuda|cudnn|cublas|nccl|rocm|cupti|toolkit|build|lib\w*|\w+-cu\d+"
    r"|tensor_?rt\w*|trt\w*|cu(?:rand|sparse(?:lt)?|solver|fft|file|tlass|tensor|quantum|dart|obj|blaslt|ml|pva|opt)\w*"
    r"|nv(?:cc|jpeg|jitlink|tx|ml|shmem|comp|idia\w*|smi|imgcodec|rtc|vm|prof)|nsight\w*|ncu|nsys|triton|kineto|hip\w*"
    r"|roc\w+|miopen|rccl|onnx\w*|open_?mpi|mpi(?:ch)?|ucx|ofed|torch(?:vision|audio|text)?|python|gcc|glibc|llvm|kernel|dali|vbios|firmware|bios"
    r"|==|>=|<=|~=)\\*[\"']?[ \t]*[:=]?[ \t]*\\*[(\"']?$",
    re.IGNORECASE,
)
_ADDRESS_WORDS = Pattern(
    r"(?:ip|ipv4|addr|address|host|hostname|server|node|from|to|at|via|master|peer|endpoint|listen|bind"
    r"|connect\w*|remote|client|rank\d*|//|@)\\*[\"']?[ \t]*[:=]?[ \t]*\\*[(\"']?$",
    re.IGNORECASE,
)


def replace_addresses(text: str, pseudonym: Callable[[str, str], str]) -> str:
    """The text with every address replaced; `pseudonym` takes the kind and the address."""

    def six(match: re.Match[str]) -> str:
        written = match[0]
        try:
            address = ipaddress.IPv6Address(written.split("%", 1)[0])
        except ValueError:
            return written
        first = written.split(":", 1)[0]
        # `::add` and `ade::bad` are C++ names that happen to be hexadecimal.
        if address.is_loopback or len(first) < 3 or not any(char.isdigit() for char in written):
            return written
        return pseudonym("ip", str(address))

    def quad(match: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv4Address(match["quad"])
        except ValueError:
            return match[0]
        before, after = match["before"] or "", match["after"] or ""
        if address.is_loopback or address.is_unspecified:
            return match[0]
        if not is_address_in_context(match["quad"], before, after):
            return match[0]
        return f"{before}{pseudonym('ip', match['quad'])}{after}"

    if ":" in text or "-" in text:
        text = _MAC.sub(lambda match: pseudonym("mac", match[0].replace("-", ":")), text)
    if ":" in text:
        text = _SIX.sub(six, text)
    if "::" in text:
        text = _SHORT_SIX.sub(six, text)
    if "." in text:
        text = _QUAD.sub(quad, text)
    return text


def is_address_in_context(quad: str, before: str, after: str) -> bool:
    """Whether four dotted numbers are an address and not a version such as 12.4.0.1.

    A port or a mask behind, or a word such as "host" before, says address; a word such as "driver" or
    an operator such as == says version. With neither: addresses set aside for private networks and
    numbers beyond what versions reach are addresses.
    """
    if _VERSION_WORDS.search(before) or before in ("-", "_", "+") or after.startswith(("-", "+")):
        return False
    if after.startswith(":") or _ADDRESS_WORDS.search(before):
        return True
    parts = [int(part) for part in quad.split(".")]
    private = parts[0] == 10 or parts[:2] == [192, 168] or (parts[0] == 172 and 16 <= parts[1] < 32)
    return private or parts[0] >= 32 or max(parts) >= 128
