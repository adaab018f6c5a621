"""A known caller was refused: that is an answer, and a fact."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from lily.api.deps import CALLER, actor_of, services_of
from lily.api.problems import problem_response
from lily.types import Caller


async def refused(request: Request, exc: Exception) -> Response:
    caller = request.scope.get(CALLER)
    if isinstance(caller, Caller):
        refusals = services_of(request).identity.refusals
        what = f"{request.method} {request.url.path}"[:300]
        await run_in_threadpool(refusals.tell, caller, str(exc), what, actor_of(caller))
    return problem_response(exc, request.url.path)
