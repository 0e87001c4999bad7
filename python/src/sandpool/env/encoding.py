"""Values out: everything an environment may return, as tagged JSON."""

from __future__ import annotations

import binascii
import collections.abc
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # annotations are never evaluated, so their forms may be newer than the oldest Python served
    from collections.abc import Callable
    from typing import Any

    _Encoder = Callable[[Any, "Output"], str]

RAW_FROM_BYTES = 1024  # below it base64 in the line is cheaper for both sides than a second piece
PIECES_FROM_BYTES = 64 * 1024  # from here on joining the pieces of a reply costs more than writing them as they are
DIGITS_MAX = 400
_TOO_BIG: int = 10**DIGITS_MAX
HEADS_MAX = 4096
NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Output:
    """One reply while it is built: the arrays that follow its line, and how strict it is."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []  # bytes, or memoryviews that are written before the environment runs again
        self.size = 0
        self.lenient = False  # in info and metadata: what cannot be sent becomes its repr, and no array goes raw
        self.arrays = False  # in an observation whose space is arrays alone, so that a list in it is one
        self.warned: Any = set()

    def start(self, arrays: bool = False) -> None:
        if self.chunks:
            self.chunks = []
            self.size = 0
        self.lenient = False
        self.arrays = arrays

    def finish(self, text: str, info: Any = False) -> bytes | list[Any]:
        """Close the reply `text`, with its info where there is one, and append the raw bytes: one piece, or many where they are large."""
        if info is not False:
            text += ',"info":' + (self.encode_info(info) if info else "{}")
        try:
            if not self.chunks:
                return (text + "}\n").encode()
            pieces = [f'{text},"raw":{self.size}}}\n'.encode(), *self.chunks]
            return b"".join(pieces) if self.size < PIECES_FROM_BYTES else pieces
        except UnicodeEncodeError:
            check_text(text)
            raise

    def array(self, head: str, size: int, pieces: Any) -> str:
        """The `$nd` form whose text begins with `head`, of `size` bytes in some pieces: in the line if short, else after it."""
        if size < RAW_FROM_BYTES or self.lenient:
            return f'{head}"{base64_text(b"".join(pieces))}"]}}'
        offset = self.size
        self.chunks.extend(pieces)
        self.size += size
        return f"{head}{offset},{size}]}}"

    def encode_info(self, info: Any) -> str:
        if not isinstance(info, dict):
            raise TypeError(f"info is {info!r:.200} ({type(info).__name__}); expected a dict")
        self.lenient = True
        return encode(info, self)


def check_text(text: str) -> str:
    """The text, if it can be sent. Raises ValueError for a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = ascii(text[max(0, error.start - 20) : error.end + 20])
        raise ValueError(f"text with a lone surrogate near {around} cannot be sent; decode with errors='replace' or send bytes") from None
    return text


def encode(value: Any, output: Output) -> str:
    """The value as tagged JSON text. Raises TypeError for what has no form."""
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = _ENCODERS[type(value)] = _find_encoder(type(value))
    return encoder(value, output)


def _find_encoder(kind: type) -> _Encoder:
    """The encoder of a type met for the first time."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, (numpy.ndarray, numpy.generic)) and not issubclass(kind, (str, bytes)):
        # A subclass may have its own idea of its bytes: those of a masked array are not its data.
        return _encode_subclass if issubclass(kind, numpy.ndarray) and kind is not numpy.ndarray else _encode_array
    if issubclass(kind, tuple):
        return _encode_graph if getattr(kind, "_fields", None) == ("nodes", "edges", "edge_links") else _encode_tuple
    for base, encoder in _ENCODERS_OF_BASES:
        if issubclass(kind, base):
            return encoder
    return _encode_foreign


def _encode_int(value: int, output: Output) -> str:
    text = int.__repr__(value)
    if len(text) > DIGITS_MAX:
        raise ValueError(f"an integer has {len(text)} digits; at most {DIGITS_MAX} can be sent, so send it as text")
    return text


def _encode_float(value: float, output: Output) -> str:
    text = float.__repr__(value)
    return text if value - value == 0.0 else f'{{"$float":"{text}"}}'


def _encode_text(value: str, output: Output) -> str:
    return quote(value)  # a lone surrogate is found in Output.finish


def _encode_bytes(value: Any, output: Output) -> str:
    return f'{{"$bytes":"{base64_text(bytes(value))}"}}'


def _encode_list(value: Any, output: Output) -> str:
    kinds = set(map(type, value))
    if kinds <= _PLAIN_TYPES and not (int in kinds and _has_huge(value)):
        try:
            return _encode_plain(value if type(value) is list else list(value))
        except ValueError:  # a NaN or an infinity
            pass
    elif output.arrays and not output.lenient and any(map(_is_numpy, kinds)):
        numbers = _numbers_of(value)
        if numbers is not None:
            value = numbers
    return "[" + ",".join([encode(item, output) for item in value]) + "]"


def _is_numpy(kind: type) -> bool:
    numpy = sys.modules["numpy"]
    return issubclass(kind, (numpy.generic, numpy.ndarray))


def _numbers_of(value: Any) -> Any:
    """A list of numpy's numbers and arrays as plain lists; None where it is no array of numbers, and the agent says what does not fit."""
    try:
        array = sys.modules["numpy"].asarray(value)
    except ValueError:  # of unequal lengths
        return None
    return array.tolist() if array.dtype.kind in "biuf" else None


def _has_huge(value: Any) -> bool:
    numbers: list[int] = [item for item in value if type(item) is int]
    return max(numbers) >= _TOO_BIG or min(numbers) <= -_TOO_BIG


def _encode_tuple(value: Any, output: Output) -> str:
    return '{"$tuple":[' + ",".join([encode(item, output) for item in value]) + "]}"


def _encode_graph(value: Any, output: Output) -> str:
    members = ",".join(f'"{name}":{encode(getattr(value, name), output)}' for name in ("nodes", "edges", "edge_links"))
    return f'{{"$graph":{{{members}}}}}'


def _encode_dict(value: Any, output: Output) -> str:
    parts = []
    for key, item in value.items():
        head = _KEY_HEADS.get(key) if type(key) is str else None
        parts.append((head or key_head(key)) + encode(item, output))
    return "{" + ",".join(parts) + "}"


def key_head(key: Any) -> str:
    text = key if isinstance(key, str) else str(key)
    head = quote("$" + text if text[:1] == "$" else text) + ":"
    if type(key) is str and len(key) < 64 and len(_KEY_HEADS) < HEADS_MAX:
        _KEY_HEADS[key] = head
    return head


def _encode_array(value: Any, output: Output) -> str:
    """A numpy array or scalar: dtype, shape and little-endian C-order bytes."""
    key = (value.dtype, value.shape)
    head = _ARRAY_HEADS.get(key)
    if head is None:
        if _is_odd(value.dtype):
            return _encode_odd_array(value, output)
        if len(_ARRAY_HEADS) >= HEADS_MAX:
            _ARRAY_HEADS.clear()
        head = _ARRAY_HEADS[key] = array_head(value.dtype, value.shape)
    size = value.nbytes
    if size < RAW_FROM_BYTES or output.lenient:
        return f'{head}"{base64_text(value.tobytes())}"]}}'
    return output.array(head, size, (bytes_of(value),))


def array_head(dtype: Any, shape: tuple[int, ...]) -> str:
    return f'{{"$nd":["{dtype.str}",[{",".join(map(str, shape))}],'


def bytes_of(array: Any) -> Any:
    """Its bytes in C order: a view where they lie so, else a copy."""
    plain = array.dtype.kind in "biufc" and array.flags.c_contiguous and array.ndim and array.size
    return memoryview(array).cast("B") if plain else array.tobytes()


def _is_odd(dtype: Any) -> bool:
    """Whether the dtype is not sent as it is: objects, variable text, records, extension types, big-endian numbers."""
    return dtype.kind in "OT" or dtype.names is not None or dtype.str[0] == ">" or (dtype.kind == "V" and _is_extension(dtype))


def _is_extension(dtype: Any) -> bool:
    return bool(dtype.type is not sys.modules["numpy"].void)


def _encode_odd_array(value: Any, output: Output) -> str:
    if value.dtype.names is not None:
        return _encode_dict({name: value[name] for name in value.dtype.names}, output)
    if value.dtype.kind in "OT":
        return encode(value.tolist() if hasattr(value, "tolist") else value, output)
    if value.dtype.str[0] == ">":
        return _encode_array(value.astype(value.dtype.newbyteorder("<")), output)
    return _encode_array(value.astype("<f4"), output)  # bfloat16 and its kin: exact in float32


def _encode_subclass(value: Any, output: Output) -> str:
    return _encode_array(sys.modules["numpy"].asarray(value), output)


def _encode_foreign(value: Any, output: Output) -> str:
    """Another library's array through numpy; anything else has no form."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(value, "__array__"):
        return _encode_array(numpy.asarray(value), output)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if not output.lenient:
        raise TypeError(
            f"cannot send {ascii(value)[:200]} ({kind}); expected numbers, text, bytes, None, lists, tuples, dicts, numpy arrays or scalars"
        )
    if kind not in output.warned:
        output.warned.add(kind)
        print(f"sandpool: info holds a {kind}, which cannot be sent; its repr is sent instead", file=sys.stderr)
    return quote(ascii(value)[:1000])


def base64_text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


quote = json.encoder.encode_basestring
_encode_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_PLAIN_TYPES = frozenset((int, float, str, bool, type(None)))
_KEY_HEADS: dict[str, str] = {}
_ARRAY_HEADS: dict[Any, str] = {}
_ENCODERS: dict[type, _Encoder] = {
    type(None): lambda value, output: "null",
    bool: lambda value, output: "true" if value else "false",
    int: _encode_int,
    float: _encode_float,
    str: _encode_text,
    bytes: _encode_bytes,
    list: _encode_list,
    tuple: _encode_tuple,
    dict: _encode_dict,
}
_ENCODERS_OF_BASES: list[tuple[Any, _Encoder]] = [
    (int, _encode_int),
    (float, _encode_float),
    (str, lambda value, output: quote(str.__str__(value))),
    ((bytes, bytearray, memoryview), _encode_bytes),
    (collections.abc.Mapping, _encode_dict),
    ((collections.abc.Sequence, collections.abc.Set), _encode_list),
]
