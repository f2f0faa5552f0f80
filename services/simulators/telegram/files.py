"""Methods that carry files: sendPhoto and its kin, and getFile."""

from collections.abc import Callable
from typing import Any

from services.simulators.telegram.bots import Bot
from services.simulators.telegram.errors import ApiError, bad_request
from services.simulators.telegram.formatting import caption_text
from services.simulators.telegram.media import LARGEST_PHOTO, LARGEST_UPLOAD, StoredFile, Upload
from services.simulators.telegram.pictures import picture_size
from services.simulators.telegram.world import World

Params = dict[str, Any]


def get_file(world: World, _bot: Bot, params: Params) -> Any:
    return world.files.described(params.get("file_id"))


def _sender(kind: str) -> Callable[[World, Bot, Params], Any]:
    def send(world: World, bot: Bot, params: Params) -> Any:
        chat = world.chats.access(bot, params.get("chat_id"))
        text, entities = caption_text(params)
        stored = _stored(world, kind, params)
        file = {
            "kind": kind,
            "name": stored.upload.name,
            "size": len(stored.upload.content),
            "described": _DESCRIBED[kind](stored),
        }
        message = world.sent(bot, chat, params, text=text, entities=entities, file=file)
        return world.as_json(chat, message)

    return send


def _stored(world: World, kind: str, params: Params) -> StoredFile:
    """The file of a call: an uploaded part, `attach://<part>`, or the ID of a file that is known."""
    given = params.get(kind)
    if isinstance(given, str) and given.startswith("attach://"):
        given = params.get(given.removeprefix("attach://"))
    if isinstance(given, Upload):
        if len(given.content) > (LARGEST_PHOTO if kind == "photo" else LARGEST_UPLOAD):
            raise ApiError(413, "Request Entity Too Large")
        return world.files.store(given)
    if not given:
        raise bad_request(f"there is no {kind} in the request")
    stored = world.files.by_id(str(given))
    if stored is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    return stored


def _photo(stored: StoredFile) -> Any:
    size = picture_size(stored.upload.content)
    if size is None:
        raise bad_request("IMAGE_PROCESS_FAILED")
    width, height = size
    if width + height > 10_000 or max(size) > 20 * min(size):
        raise bad_request("PHOTO_INVALID_DIMENSIONS")
    return [{**stored.as_json(), "width": width, "height": height}]


def _document(stored: StoredFile) -> Any:
    return {**stored.as_json(), "file_name": stored.upload.name, "mime_type": stored.upload.mime}


def _sound(stored: StoredFile) -> Any:
    return {**stored.as_json(), "duration": 0, "mime_type": stored.upload.mime}


def _video(stored: StoredFile) -> Any:
    return {**_sound(stored), "width": 0, "height": 0}


_DESCRIBED: dict[str, Callable[[StoredFile], Any]] = {
    "photo": _photo,
    "document": _document,
    "audio": _sound,
    "voice": _sound,
    "video": _video,
}

METHODS: dict[str, Callable[[World, Bot, Params], Any]] = {
    "getFile": get_file,
    **{f"send{kind.capitalize()}": _sender(kind) for kind in _DESCRIBED},
}
