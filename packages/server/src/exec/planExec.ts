import { createHash } from "node:crypto";
import { type ExecRequest, makeExecId, SandpoolError } from "@sandpool/protocol";
import type { ExecStart } from "@sandpool/worker";
import type { FoundMachine } from "../machines/catalog.ts";

/** Of standard input in a request; what is longer goes through the WebSocket. */
export const STDIN_LIMIT_BYTES = 16 * 2 ** 20;
/** Execs hold what they keep of their output in the machine's own memory, two streams each and many at once. */
const KEPT_SHARE = 256;
const KEPT_BYTES = { least: 256 * 1024, most: 8 * 2 ** 20 };

/** What an exec is started with, and the bytes for its standard input. */
export interface PlannedExec {
  start: ExecStart;
  /** Null: none was given. */
  input: Buffer | null;
}

/**
 * What a request asks of the agent: the program itself, never a script around it; the image's, the machine's and the request's own variables.
 *
 * @param id the exec's
 * @throws `invalid_request`, `exec_failed` where there is no shell for `command`
 */
export function planExec(
  { record, live }: FoundMachine,
  request: ExecRequest,
  id: string,
  how: { attach: boolean; stdin: "closed" | "open" },
): PlannedExec {
  const input = readInput(request.stdin);
  const keptBytes = Math.min(Math.floor(record.plan.memoryBytes / KEPT_SHARE), KEPT_BYTES.most);
  const start: ExecStart = {
    id,
    argv: argvOf(request, live.agent.shell),
    cwd: request.cwd ?? record.imageDefaults.cwd,
    environ: request.environment === undefined ? null : { ...record.plan.environ, ...request.environment },
    user: request.user ?? record.imageDefaults.user,
    tty: request.tty ?? null,
    stdin: how.stdin === "open" || input !== null,
    timeoutMs: request.timeout == null ? null : Math.max(1, Math.round(request.timeout * 1000)),
    keepBytes: Math.max(keptBytes, KEPT_BYTES.least),
    attach: how.attach,
  };
  return { start, input };
}

/** A new id, or always the same one where the caller has a key for the request. */
export function execIdFor(machineId: string, owner: string, idempotencyKey: string | null): string {
  if (idempotencyKey === null) return makeExecId();
  const text = JSON.stringify(["exec", machineId, owner, idempotencyKey]);
  return makeExecId(createHash("sha256").update(text).digest());
}

function argvOf({ command, argv }: ExecRequest, shell: unknown): string[] {
  if ((command === undefined) === (argv === undefined)) {
    const received = command === undefined ? "neither command nor argv" : "both command and argv";
    throw new SandpoolError("invalid_request", `${received} came, expected exactly one of them`, {
      hint: "command is a text for the machine's shell, argv a program and its arguments",
    });
  }
  if (argv !== undefined) {
    if (argv[0] !== "") return argv;
    throw new SandpoolError("invalid_request", "argv[0] is empty, expected the name of a program");
  }
  if (typeof shell === "string") return [shell, "-c", String(command)];
  throw new SandpoolError("exec_failed", "the machine's image has no shell to run a command with", {
    hint: "give argv: a program and its arguments",
    details: { what: "program", errno: "ENOENT" },
  });
}

function readInput(stdin: ExecRequest["stdin"]): Buffer | null {
  if (stdin === undefined || stdin === null) return null;
  const bytes = typeof stdin === "string" ? Buffer.from(stdin) : Buffer.from(stdin.base64, "base64");
  if (bytes.length <= STDIN_LIMIT_BYTES) return bytes;
  throw new SandpoolError(
    "body_too_large",
    `stdin has ${bytes.length} bytes, at most ${STDIN_LIMIT_BYTES} are accepted here`,
    {
      hint: "use the WebSocket …/exec/attach, or write a file first",
      details: { received_bytes: bytes.length, limit_bytes: STDIN_LIMIT_BYTES },
    },
  );
}
