"""The extension that libdw_build.py declares; cffi gives its objects no static types."""

from typing import Any

ffi: Any
lib: Any
