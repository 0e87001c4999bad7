import { SandpoolError } from "@sandpool/protocol";
import type { LiveMachine } from "@sandpool/worker";

/** Between TERM and KILL. */
const GRACE_MS = 2_000;

/** Ends an exec and everything below it: TERM, and after two seconds KILL until nothing is left. One that has ended, or is not known, is no fault. */
export async function endExec(live: LiveMachine, id: string): Promise<void> {
  try {
    const { signalled } = await live.signalExec(id, "TERM", true);
    if (signalled > 0) await Promise.race([ended(live, id), delay(GRACE_MS)]);
    await live.signalExec(id, "KILL", true);
  } catch (error) {
    if (!(error instanceof SandpoolError) || error.code !== "exec_not_found") throw error;
  }
}

async function ended(live: LiveMachine, id: string): Promise<void> {
  const { left } = await live.waitExec(id, { collect: false });
  // Its leader is gone, what it left is not: that is given the whole time.
  if (left.length > 0) await delay(GRACE_MS);
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
