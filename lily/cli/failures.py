"""How a command fails: one sentence with a cure, and an exit code that means something."""

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_ALLOWED = 4
NOT_FOUND = 5

MEANINGS = {
    OK: "done",
    FAILED: "failed",
    USAGE: "used in a wrong way",
    UNREACHABLE: "the API cannot be reached",
    NOT_ALLOWED: "not logged in, or not allowed",
    NOT_FOUND: "there is no such thing",
}


class Failure(Exception):
    """A sentence for a person, and a code for a script."""

    def __init__(self, sentence: str, code: int = FAILED, status: int = 0) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.status = status  # of the API's answer, if there was one


BY_STATUS = {400: USAGE, 401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 422: USAGE}


def from_status(status: int) -> int:
    """The exit code for an answer of the API."""
    return BY_STATUS.get(status, FAILED)
