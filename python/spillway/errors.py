# SPDX-License-Identifier: Apache-2.0
"""What this package raises. Every error is an Error, and of the built-in kind that fits it, too."""


class Error(Exception):
    """Of all errors of this package."""


class BadArgument(Error, ValueError):
    """A tensor, a shape or another argument is not as the model or the call needs it; the text says which, what
    was expected and what came."""


class WrongShape(BadArgument):
    """The program's answer has another shape than it said that its model's have."""


class Unanswered(Error, RuntimeError):
    """The program left a request without an answer; the text names the line that took it. Who asked got it as an error
    (`failed`), too."""


class GatewayGone(Error, ConnectionError):
    """No gateway answers, or it has gone. A new Client, or a restarted program, finds the next one."""


class WindowFull(Error, MemoryError):
    """The client's window has no room for the tensor: free() others, or make a larger window."""


class Refused(Error, RuntimeError):
    """The gateway, or the model, did not answer the request.

    status: the word of docs/gateway.md's table, such as "busy", "no_slice", "deadline" or "failed".
    retry_after: seconds after which it may be asked again; 0: the gateway did not say.
    """

    def __init__(self, status, text, retry_after=0.0):
        super().__init__(f"{status}: {text}")
        self.status = status
        self.retry_after = retry_after
