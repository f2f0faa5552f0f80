"""The client of an OpenAI-compatible model server.

- `client`: one request, streamed. `stream`: what comes back, with the tolerances of real servers.
- `problems`: what can go wrong, each with the sentence that a person sees.
"""

from services.frontend.model.client import ModelClient
from services.frontend.model.problems import ModelProblem
from services.frontend.model.stream import Reply, ToolCall

__all__ = ["ModelClient", "ModelProblem", "Reply", "ToolCall"]
