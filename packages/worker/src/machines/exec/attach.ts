import type { SandpoolError } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import type { ExecAttachment } from "../contract.ts";
import { readableOf } from "../session/inlet.ts";
import { type Said, said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";
import { listExecs, readState } from "./list.ts";

/**
 * An exec's outputs: what was kept first (`start`), then what comes; or only what comes (`now`).
 * @throws `exec_not_found`
 */
export async function attachExec(session: MachineSession, id: string, from: "start" | "now"): Promise<ExecAttachment> {
  const listed = (await listExecs(session)).find((exec) => exec.id === id);
  if (listed === undefined) throw notFound(id);
  const { tty, ...state } = listed;
  return await session.again("exec.attach", async (channel) => {
    const stdout = channel.openInlet();
    const stderr = tty ? null : channel.openInlet();
    try {
      const request = { op: "exec.attach", id, stdout: stdout.id, stderr: stderr?.id ?? null, from };
      const { head } = await channel.ask(request, { isPaused: () => session.pauses > 0 });
      const kept = said.object(head.kept, "kept");
      return {
        state: { ...state, state: readState(head.state, "state") },
        dropped: { stdout: readDropped(kept, "stdout"), stderr: tty ? 0 : readDropped(kept, "stderr") },
        stdout: readableOf(stdout),
        stderr: stderr && readableOf(stderr),
      };
    } catch (error) {
      for (const inlet of [stdout, stderr]) if (inlet !== null) channel.dropInlet(inlet, error as SandpoolError);
      throw error;
    }
  });
}

function readDropped(kept: Said, name: "stdout" | "stderr"): number {
  return said.integer(said.object(kept[name], `kept.${name}`).dropped, `kept.${name}.dropped`);
}

function notFound(id: string): SandpoolError {
  return fail("exec_not_found", `The machine has no exec ${JSON.stringify(id)}; expected one that its list names.`, {
    hint: "Finished execs are known for 10 minutes, at most 256 of them.",
  });
}
