# The part of msgpack that asyncrl.wire uses; the package itself ships no types.

from collections.abc import Callable
from typing import Any, NamedTuple

from typing_extensions import Buffer

from . import exceptions as exceptions

class ExtType(NamedTuple):
    code: int
    data: bytes

def packb(
    o: object,
    /,
    *,
    default: Callable[[Any], Any] | None = None,
    use_bin_type: bool = True,
    strict_types: bool = False,
) -> bytes: ...
def unpackb(
    packed: Buffer,
    /,
    *,
    raw: bool = False,
    strict_map_key: bool = True,
    timestamp: int = 0,
    ext_hook: Callable[[int, bytes], Any] = ...,
    object_hook: Callable[[dict[Any, Any]], Any] | None = None,
    max_str_len: int = -1,
    max_bin_len: int = -1,
    max_ext_len: int = -1,
    max_array_len: int = -1,
    max_map_len: int = -1,
) -> Any: ...
