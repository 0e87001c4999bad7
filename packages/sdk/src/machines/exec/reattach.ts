import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError } from "../../errors.ts";
import { openWebSocket } from "../../http/webSocket.ts";
import { ExecConnection } from "./connection.ts";
import { brokenStream, readFacts, type StreamTarget } from "./facts.ts";

const PATIENCE_MS = 60_000;
const PAUSE_MS = 500;

/**
 * Joins an exec after a broken connection, from its first byte. Only while the machine has kept every byte can it be known which
 * ones are new: with a hole in it this is refused, for output that silently lacks its middle is worse.
 */
export async function reattach(target: StreamTarget, id: string): Promise<ExecConnection> {
  const connection = await open(target, id);
  const { dropped } = await readFacts(connection);
  if (dropped.stdout > 0 || dropped.stderr > 0) {
    connection.close();
    throw brokenStream(id);
  }
  return connection;
}

async function open(target: StreamTarget, id: string): Promise<ExecConnection> {
  const until = performance.now() + PATIENCE_MS;
  const path = `${target.path}/exec/${encodeURIComponent(id)}/attach?from=start`;
  for (;;) {
    try {
      return new ExecConnection(await openWebSocket(target.transport.endpoint, path));
    } catch (error) {
      if (!(error instanceof ConnectionError) || performance.now() > until) throw brokenStream(id, error);
      await sleep(PAUSE_MS);
    }
  }
}
