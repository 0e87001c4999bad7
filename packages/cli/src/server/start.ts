import type { ServerOptions } from "@sandpool/server";
import { findAgent } from "./paths.ts";

export interface StartOptions {
  dataDir: string;
  listen: string;
  insecure: boolean;
  tls: { cert: Buffer; key: Buffer } | null;
  /** Where url and key are left; undefined for the account's own place. */
  credentialsFile?: string;
  logger: ServerOptions["logger"];
}

export interface RunningServer {
  url: string;
  /** Closes every pool, then the server. */
  stop: () => Promise<void>;
}

/** Starts a worker and a server in this process. The packages are loaded here, so that other commands start without them. */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const [{ createServer }, { createWorker }] = await Promise.all([
    import("@sandpool/server"),
    import("@sandpool/worker"),
  ]);
  const { dataDir, listen, insecure, tls, logger, credentialsFile } = options;
  const worker = await createWorker({ dataDir, agentPath: findAgent(), logger });
  try {
    const place = credentialsFile === undefined ? {} : { credentialsFile };
    const server = await createServer({ worker, dataDir, listen, insecure, logger, ...(tls && { tls }), ...place });
    return { url: server.url, stop: () => server.close() };
  } catch (error) {
    await worker.close();
    throw error;
  }
}
