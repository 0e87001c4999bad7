import { Readable } from "node:stream";
import { type ExecRequest, SandpoolError } from "@sandpool/protocol";
import type { StartedExec } from "@sandpool/worker";
import { hashRequest } from "../pools/idempotency.ts";
import { type ExecCall, type ExecContext, execKeyOf } from "./context.ts";
import { execIdFor, planExec } from "./planExec.ts";

/** A request with the key by which its caller may repeat it, and its bytes. */
export interface ExecAsked {
  request: ExecRequest;
  idempotencyKey: string | null;
  rawBody: Buffer;
}

/** Starts an exec, or joins the one that the same key began. Its standard input is fed meanwhile. */
export async function startExec(
  context: ExecContext,
  call: Omit<ExecCall, "id">,
  { request, idempotencyKey, rawBody }: ExecAsked,
  attach: boolean,
): Promise<StartedExec> {
  const { caller, found } = call;
  const id = execIdFor(found.record.id, caller.owner, idempotencyKey);
  const { start, input } = planExec(found, request, id, { attach, stdin: "closed" });
  const execKey = execKeyOf({ found, id });
  const isNew = !context.execs.requests.has(execKey);
  if (idempotencyKey !== null) context.execs.requests.admit(execKey, idempotencyKey, hashRequest(rawBody));
  const started = await context.journal.audited("machine.exec", caller, found.record.id, () =>
    found.live.startExec(start),
  );
  if (started.repeated && isNew && idempotencyKey !== null)
    await requireSameProgram(call, id, start.argv, idempotencyKey);
  if (!started.repeated && input !== null) feed(call, id, input);
  return started;
}

/** How it fares is the program's affair: one that reads nothing of it is no failure. */
function feed({ found }: Omit<ExecCall, "id">, id: string, input: Buffer): void {
  found.live.writeExecInput(id, Readable.from([input])).catch(() => {});
}

/** After a restart of the server, what the agent still knows is compared. */
async function requireSameProgram(
  { found }: Omit<ExecCall, "id">,
  id: string,
  argv: readonly string[],
  idempotencyKey: string,
): Promise<void> {
  const known = (await found.live.listExecs()).find((exec) => exec.id === id);
  if (known === undefined || JSON.stringify(known.argv) === JSON.stringify(argv)) return;
  throw new SandpoolError("conflict", `the Idempotency-Key ${JSON.stringify(idempotencyKey)} began another program`, {
    hint: "use a new key for a new request",
  });
}
