import { Duplex } from "node:stream";
import type { SandpoolError } from "@sandpool/protocol";
import { type Inlet, pullFrom } from "../session/inlet.ts";
import type { Outlet } from "../session/outlet.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";

/**
 * A connection to a port on the machine's loopback; each direction ends on its own.
 * @throws `port_refused`
 */
export async function dialPort(session: MachineSession, port: number): Promise<Duplex> {
  return await session.again("port.dial", async (channel) => {
    const inlet = channel.openInlet();
    const outlet = channel.openOutlet();
    try {
      const request = { op: "port.dial", port, in: outlet.id, out: inlet.id };
      await channel.ask(request, { isPaused: () => session.pauses > 0 });
      return connectionOf(inlet, outlet);
    } catch (error) {
      outlet.close();
      channel.dropInlet(inlet, error as SandpoolError);
      throw error;
    }
  });
}

function connectionOf(inlet: Inlet, outlet: Outlet): Duplex {
  const pull = pullFrom(inlet);
  const connection = new Duplex({
    readableHighWaterMark: 1,
    read() {
      pull(this);
    },
    write(chunk: Buffer, _encoding, callback) {
      // Where the program reads no more, what it still says is worth having: only the writing is over.
      outlet.write(chunk).then(() => callback(outlet.failure), callback);
    },
    final(callback) {
      outlet.end();
      callback();
    },
    destroy(error, callback) {
      inlet.cancel();
      outlet.fail(error?.message ?? "the connection was closed");
      callback(error);
    },
  });
  // Whoever has it may not listen yet when it breaks.
  connection.on("error", () => undefined);
  return connection;
}

/** Listening TCP ports, with the process where it can be known. */
export async function listPorts(session: MachineSession): Promise<{ port: number; pid: number | null }[]> {
  const { head } = await session.ask({ op: "port.list" });
  return said.list(head.ports, "ports", (item, name) => {
    const { port, pid } = said.object(item, name);
    return { port: said.integer(port, `${name}.port`), pid: said.orNull(pid, `${name}.pid`, said.integer) };
  });
}
