"""Files: what people sent (put there by the control API) and what bots uploaded."""

import hashlib
from dataclasses import dataclass
from itertools import count
from typing import Any

from services.simulators.telegram.errors import bad_request

LARGEST_DOWNLOAD = 20 * 1024 * 1024
LARGEST_UPLOAD = 50 * 1024 * 1024
LARGEST_PHOTO = 10 * 1024 * 1024
KEEP_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """A file part of a multipart request."""

    name: str
    mime: str
    content: bytes

    def as_json(self) -> dict[str, Any]:
        """As the call log shows it: no bytes."""
        return {"file": self.name, "mime": self.mime, "bytes": len(self.content)}


@dataclass(frozen=True, slots=True)
class StoredFile:
    id: str
    path: str
    upload: Upload

    def as_json(self) -> dict[str, Any]:
        """The identifying fields that every kind of file has on the platform."""
        unique = hashlib.sha256(self.id.encode()).hexdigest()[:16]
        return {"file_id": self.id, "file_unique_id": unique, "file_size": len(self.upload.content)}


class Files:
    """Stored files by ID and by path; the oldest are forgotten when all together are too large."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._bytes = 0
        self._numbers = count(1)

    def store(self, upload: Upload) -> StoredFile:
        number = next(self._numbers)
        stored = StoredFile(f"simfile-{number}", f"files/file_{number}", upload)
        self._files[stored.id] = stored
        self._bytes += len(upload.content)
        while self._bytes > KEEP_BYTES and len(self._files) > 1:
            self._bytes -= len(self._files.pop(next(iter(self._files))).upload.content)
        return stored

    def described(self, file_id: Any) -> dict[str, Any]:
        """What getFile answers; raises `ApiError`."""
        if not file_id:
            raise bad_request("file_id not specified")
        stored = self._files.get(str(file_id))
        if stored is None:
            raise bad_request("invalid file_id")
        if len(stored.upload.content) > LARGEST_DOWNLOAD:
            raise bad_request("file is too big")
        return {**stored.as_json(), "file_path": stored.path}

    def by_id(self, file_id: str) -> StoredFile | None:
        return self._files.get(file_id)

    def at_path(self, path: str) -> StoredFile | None:
        return self._files.get(f"simfile-{path.removeprefix('files/file_')}")
