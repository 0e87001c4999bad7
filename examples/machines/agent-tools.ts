/**
 * A coding agent's tool loop in TypeScript: whatever the model asks for happens inside a sandbox, what comes of it goes back.
 *
 *     sandpool up &
 *     node examples/machines/agent-tools.ts
 *
 * Put your model where `scriptedModel` is: it gets the messages so far and answers with one call of a tool, or with its last word. The
 * scripted one mends a small program as a model would: it runs the tests, reads the file, edits it, runs the tests again.
 */
import { escapeControl, NotFoundError, type Sandbox, Sandpool } from "sandpool";

const TURNS = 12;
const TOOL_TIMEOUT_SECONDS = 60;
const SHOWN_CHARACTERS = 4000;
const FOLDER = "/root/project";

const PROGRAM = `def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]
`;
const MENDED = `def median(numbers):
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
`;
const TESTS = `import unittest
from stats import median

class MedianTest(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)
    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

unittest.main()
`;

type ToolCall =
  | { tool: "shell"; command: string }
  | { tool: "read_file"; path: string }
  | { tool: "write_file"; path: string; content: string };
interface Message {
  role: "user" | "assistant" | "tool";
  content: string;
}
/** Your model: the messages so far go in, a tool call or the last word comes out. */
type Model = (messages: readonly Message[]) => Promise<ToolCall | string>;

await using sandbox = await new Sandpool().sandbox({ isolated: true });
await sandbox.write(`${FOLDER}/stats.py`, PROGRAM);
await sandbox.write(`${FOLDER}/test_stats.py`, TESTS);
const last = await runAgent(scriptedModel, sandbox, `The tests in ${FOLDER} fail. Mend the program.`);
const { ok } = await sandbox.exec({ command: "python3 test_stats.py", cwd: FOLDER });
console.log(`${last}\nsolved: ${ok ? "yes" : "no"}`);

/** Lets the model and the tools take turns until the model has no more to ask. */
async function runAgent(model: Model, box: Sandbox, task: string): Promise<string> {
  const messages: Message[] = [{ role: "user", content: task }];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const asked = await model(messages);
    if (typeof asked === "string") return asked;
    const said = await callTool(box, asked);
    // Both come from a model or a sandbox: never onto a terminal as they are.
    console.log(escapeControl(`> ${JSON.stringify(asked)}`).slice(0, 150));
    console.log(escapeControl(said, { keepLines: true }).slice(-300).replace(/^/gm, "  "));
    messages.push({ role: "assistant", content: JSON.stringify(asked) }, { role: "tool", content: said });
  }
  return "The turns are used up.";
}

/** Each tool takes what a model wrote and answers with text for the model, failures included. */
async function callTool(box: Sandbox, asked: ToolCall): Promise<string> {
  if (asked.tool === "shell") {
    // A program that fails, hangs or writes gigabytes is an answer like any other.
    const outcome = await box.exec({ command: asked.command, cwd: FOLDER, timeoutSeconds: TOOL_TIMEOUT_SECONDS });
    return `[It ${outcome.ending}]\n${shorten(outcome.stdout + outcome.stderr)}`;
  }
  if (asked.tool === "write_file") {
    const { bytes } = await box.write(asked.path, asked.content);
    return `Wrote ${bytes} bytes to ${asked.path}.`;
  }
  try {
    return shorten((await box.read(asked.path)).toString("utf8"));
  } catch (error) {
    if (error instanceof NotFoundError) return `There is no file ${asked.path}.`;
    throw error;
  }
}

function shorten(text: string): string {
  if (text.length <= SHOWN_CHARACTERS) return text;
  const half = SHOWN_CHARACTERS / 2;
  return `${text.slice(0, half)}\n[… ${text.length - SHOWN_CHARACTERS} characters left out …]\n${text.slice(-half)}`;
}

/** Decides by what the tools said, as a model would. */
async function scriptedModel(messages: readonly Message[]): Promise<ToolCall | string> {
  const said = messages.at(-1)?.content ?? "";
  if (said.includes("FAILED")) return { tool: "read_file", path: `${FOLDER}/stats.py` };
  if (said.startsWith("def median")) return { tool: "write_file", path: `${FOLDER}/stats.py`, content: MENDED };
  if (said.includes("OK")) return "The median of an even number of values is now the mean of the middle two.";
  return { tool: "shell", command: "python3 test_stats.py" };
}
