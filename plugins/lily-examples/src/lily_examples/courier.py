"""A target: notices as lines of text, posted to any address."""

import json

from pydantic import BaseModel, SecretStr

from lily.sdk import Call, Notice, Sending


class Courier:
    """Posts `{"text": …}` with a token; what the other side calls the message is the handle."""

    threads = True  # the handle is kept, so that changes go to the same message

    class Options(BaseModel):
        url: str
        token: SecretStr

    def __init__(self, options: Options) -> None:
        self._url = options.url.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {options.token.get_secret_value()}",
            "Content-Type": "application/json",
        }

    def address(self) -> str:
        return self._url

    def send(self, notice: Notice) -> Sending:
        said = {"id": notice.id, "text": f"{notice.title}\n{notice.text}".strip()}
        body = json.dumps(said).encode()
        if notice.handle:
            yield Call("PUT", f"{self._url}/{notice.handle}", self._headers, body)
            return notice.handle
        answer = yield Call("POST", self._url, self._headers, body)
        found = answer.json()
        return found.get("id") if isinstance(found, dict) else None
