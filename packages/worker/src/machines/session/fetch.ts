import type { Readable } from "node:stream";
import type { SandpoolError } from "@sandpool/protocol";
import type { AgentReply } from "../../agent/channel.ts";
import { readableOf } from "./inlet.ts";
import type { MachineSession } from "./session.ts";

/** A request with a stream from the machine, which stands once the reply has come. */
export async function fetchStream(
  session: MachineSession,
  head: Readonly<Record<string, unknown>>,
): Promise<{ reply: AgentReply; content: Readable }> {
  return await session.again(String(head.op), async (channel) => {
    const inlet = channel.openInlet();
    try {
      const reply = await channel.ask({ ...head, s: inlet.id }, { isPaused: () => session.pauses > 0 });
      return { reply, content: readableOf(inlet) };
    } catch (error) {
      channel.dropInlet(inlet, error as SandpoolError);
      throw error;
    }
  });
}
