import type { Readable } from "node:stream";
import type { AgentReply } from "../../agent/channel.ts";
import { sendSource } from "./send-source.ts";
import type { MachineSession } from "./session.ts";

/**
 * A request with a stream to the machine. Resolves with the reply; where the source fails, that is the error, once the machine has dropped
 * what it had. The source is not destroyed.
 */
export async function feed(
  session: MachineSession,
  head: Readonly<Record<string, unknown>>,
  source: Readable,
  signal?: AbortSignal,
): Promise<AgentReply> {
  return await session.once(String(head.op), async (channel) => {
    const outlet = channel.openOutlet();
    // No limit: how long it takes is the source's doing.
    const asked = channel.ask({ ...head, s: outlet.id }, { timeoutMs: null }).finally(() => outlet.close());
    asked.catch(() => undefined);
    let failure: { error: unknown } | null = null;
    await sendSource(source, outlet, signal).catch((error: unknown) => {
      failure = { error };
    });
    const reply = await asked.catch((error: unknown) => {
      throw failure === null ? error : (failure as { error: unknown }).error;
    });
    if (failure !== null) throw (failure as { error: unknown }).error;
    return reply;
  });
}
