import type { ServerOptions } from "@sandpool/server";
import { CommandFailure } from "../output/failure.ts";
import { findHolder } from "./holder.ts";

export interface StartOptions {
  dataDir: string;
  listen: string;
  insecure: boolean;
  tls: { cert: Buffer; key: Buffer } | null;
  /** Where url and key are left for clients: `null` for nowhere; left out for the account's own place. */
  credentialsFile?: null;
  /** Package indexes with private addresses that dependency builds may reach. */
  privateHosts?: readonly string[];
  /** Further names for the Host header. */
  allowedHosts?: readonly string[];
  logger: ServerOptions["logger"];
}

export interface RunningServer {
  url: string;
  key: string;
  /** Closes every pool, then the server. */
  stop: () => Promise<void>;
}

/** Starts a worker and a server in this process. The packages are loaded here, so that other commands start without them. */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const [{ createServer }, { createWorker }] = await Promise.all([
    import("@sandpool/server"),
    import("@sandpool/worker"),
  ]);
  const { dataDir, listen, insecure, tls, logger, credentialsFile, privateHosts = [], allowedHosts = [] } = options;
  refuseHeldFolder(dataDir);
  const worker = await createWorker({ dataDir, privateHosts, warn: (message) => logger.warn(message) });
  try {
    const place = credentialsFile === undefined ? {} : { credentialsFile };
    const server = await createServer({
      worker,
      dataDir,
      listen,
      insecure,
      allowedHosts,
      logger,
      ...(tls && { tls }),
      ...place,
    });
    return { url: server.url, key: server.key, stop: () => server.close() };
  } catch (error) {
    await worker.close();
    throw error;
  }
}

/** The worker cleans up what an ended server left, so it must never start beside a living one; the server's own lock comes later. */
function refuseHeldFolder(dataDir: string): void {
  const pid = findHolder(dataDir);
  if (pid === null) return;
  throw new CommandFailure(
    "data_folder_locked",
    `The data folder ${dataDir} is in use by the server of process ${pid}; expected a folder of its own for each server.`,
    `Use that server, stop it with "sandpool down --data ${dataDir}", or give another --data DIR.`,
  );
}
