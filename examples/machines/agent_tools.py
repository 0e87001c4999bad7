"""A coding agent's tool loop: whatever the model asks for happens inside a sandbox, and what comes of it goes back to the model.

    sandpool up &
    python examples/machines/agent_tools.py

Put your model where `ScriptedModel` is: it gets the messages so far and answers with one call of a tool, or with its last word. The
scripted one mends a small program as a model would: it runs the tests, reads the file, tries an edit that is wrong, sees the tests fail
again, and edits it right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from sandpool import ExecResult, MachineFileNotFoundError, Sandbox
from sandpool.escape import escape_untrusted

TURNS = 12
TOOL_TIMEOUT_S = 60.0
SHOWN_CHARACTERS = 4_000

PROGRAM = """def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]
"""
TESTS = """import unittest
from stats import median

class MedianTest(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)
    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

unittest.main()
"""


@dataclass(frozen=True)
class ToolCall:
    """What a model asks for."""

    tool: str
    arguments: dict[str, Any]


@dataclass
class Tools:
    """The tools: each takes what a model wrote, and answers with text for the model, failures included."""

    sandbox: Sandbox
    calls: int = field(default=0)

    def call(self, asked: ToolCall) -> str:
        self.calls += 1
        tool = {"shell": self.shell, "read_file": self.read_file, "write_file": self.write_file}.get(asked.tool)
        return f"There is no tool {asked.tool!r}." if tool is None else tool(**asked.arguments)

    def shell(self, command: str) -> str:
        # A program that fails, hangs or writes gigabytes is an answer like any other.
        return self._describe(self.sandbox.exec(command, cwd="/root/project", timeout=TOOL_TIMEOUT_S))

    def read_file(self, path: str) -> str:
        try:
            return self._shorten(self.sandbox.files.read(path).decode("utf-8", "replace"))
        except MachineFileNotFoundError:
            return f"There is no file {path}."

    def write_file(self, path: str, content: str) -> str:
        written = self.sandbox.files.write(path, content)
        return f"Wrote {written.bytes} bytes to {path}."

    def _describe(self, result: ExecResult) -> str:
        how = "timed out" if result.timed_out else f"exit code {result.exit_code}"
        return f"[{how}]\n{self._shorten(result.stdout + result.stderr)}"

    def _shorten(self, text: str) -> str:
        if len(text) <= SHOWN_CHARACTERS:
            return text
        half = SHOWN_CHARACTERS // 2
        return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


class Model(Protocol):
    """Your model: the messages so far go in, a tool call or the last word comes out."""

    def answer(self, messages: list[dict[str, str]]) -> ToolCall | str: ...


class ScriptedModel:
    """Decides by what the tools said, as a model would."""

    def answer(self, messages: list[dict[str, str]]) -> ToolCall | str:
        said = messages[-1]["content"]
        tried = [message["content"] for message in messages if message["role"] == "assistant"]
        if messages[-1]["role"] == "user":
            return ToolCall("shell", {"command": "python3 test_stats.py"})
        if "OK" in said:
            return "The median of an even number of values is now the mean of the middle two; both tests pass."
        if "FAILED" in said:
            return ToolCall("read_file", {"path": "/root/project/stats.py"})
        if said.startswith("def median"):
            middle = "ordered[middle - 1] / 2 + ordered[middle] / 2"
            wrong = "ordered[middle - 1]"
            even = wrong if not any(wrong in text for text in tried) else middle
            text = "def median(numbers):\n    ordered = sorted(numbers)\n    middle = len(ordered) // 2\n"
            text += f"    return ordered[middle] if len(ordered) % 2 else {even}\n"
            return ToolCall("write_file", {"path": "/root/project/stats.py", "content": text})
        return ToolCall("shell", {"command": "python3 test_stats.py"})


def run_agent(model: Model, tools: Tools, task: str) -> str:
    """Let the model and the tools take turns until the model has no more to ask."""
    messages = [{"role": "user", "content": task}]
    for _ in range(TURNS):
        asked = model.answer(messages)
        if isinstance(asked, str):
            return asked
        said = tools.call(asked)
        # Both come from a model or a sandbox: never onto a terminal as they are.
        print(f"> {asked.tool} {escape_untrusted(str(asked.arguments), limit_chars=150)}")
        print("  " + escape_untrusted(said, limit_chars=300).replace("\n", "\n  "))
        messages += [{"role": "assistant", "content": str(asked)}, {"role": "tool", "content": said}]
    return "The turns are used up."


def main() -> None:
    with Sandbox(isolated=True) as sandbox:
        sandbox.files.write("/root/project/stats.py", PROGRAM)
        sandbox.files.write("/root/project/test_stats.py", TESTS)
        tools = Tools(sandbox)
        last = run_agent(ScriptedModel(), tools, "The tests in /root/project fail. Mend the program.")
        solved = sandbox.exec("python3 test_stats.py", cwd="/root/project").ok
    print(f"{last}\n{tools.calls} tool calls; solved: {'yes' if solved else 'no'}")


if __name__ == "__main__":
    main()
