import { type DeletedExec, SandpoolError } from "@sandpool/protocol";
import { type ExecCall, type ExecContext, execKeyOf } from "./context.ts";
import { endExec } from "./endExec.ts";
import { noExec } from "./getExec.ts";
import { execIdFor } from "./planExec.ts";

/** Ends an exec with its tree; whoever waits for it gets its outcome. @throws `exec_not_found` */
export async function deleteExec(context: ExecContext, { caller, found, id }: ExecCall): Promise<DeletedExec> {
  const known = (await found.live.listExecs()).some((exec) => exec.id === id);
  if (!known) throw noExec(id);
  await context.journal.audited("machine.exec.delete", caller, found.record.id, () => endExec(found.live, id));
  return { id, deleted: true };
}

/** Ends what a key began. Where that has not arrived yet, it never begins. */
export async function deleteExecOfKey(
  context: ExecContext,
  call: Omit<ExecCall, "id">,
  idempotencyKey: string | null,
): Promise<DeletedExec> {
  if (idempotencyKey === null) throw noKey();
  const { caller, found } = call;
  const id = execIdFor(found.record.id, caller.owner, idempotencyKey);
  context.execs.requests.end(execKeyOf({ found, id }));
  await context.journal.audited("machine.exec.delete", caller, found.record.id, () => endExec(found.live, id));
  return { id, deleted: true };
}

function noKey(): SandpoolError {
  return new SandpoolError("invalid_request", "no Idempotency-Key came, expected the one that began the exec", {
    hint: "DELETE …/exec/{exec} takes an id instead",
  });
}
