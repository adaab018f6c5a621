"""A webhook: pages become incidents."""

from collections.abc import Mapping

from pydantic import BaseModel, SecretStr

from lily.sdk import SignalSeen, signing


class Pager:
    """Takes signed calls of a pager."""

    class Options(BaseModel):
        secret: SecretStr

    def __init__(self, options: Options) -> None:
        self._secret = options.secret.get_secret_value()

    def receive(self, headers: Mapping[str, str], body: bytes) -> list[SignalSeen]:
        signing.same(headers.get("x-pager"), signing.hexadecimal(self._secret, body, "sha256"))
        page = signing.document(body)
        return [
            SignalSeen(
                key=page["id"],
                external_id=page["id"],
                state="open",
                title=page["text"],
                names=[page["table"]],
            )
        ]
