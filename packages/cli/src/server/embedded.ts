import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandpool } from "sandpool";
import { startServer } from "./start.ts";

export interface EmbeddedServer {
  client: Sandpool;
  stop: () => Promise<void>;
}

/** A server in this process for the duration of one command: free port, throwaway data folder, a key nobody else learns. */
export async function startEmbedded(): Promise<EmbeddedServer> {
  const folder = await mkdtemp(join(tmpdir(), "sandpool-check-"));
  const removeFolder = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    const { createLogger } = await import("@sandpool/server");
    const logger = createLogger({ level: "silent" });
    const options = {
      dataDir: join(folder, "data"),
      listen: "127.0.0.1:0",
      insecure: false,
      tls: null,
      allowUnisolated: true,
    };
    const server = await startServer({ ...options, logger, credentialsFile: null });
    const stop = async (): Promise<void> => {
      await server.stop();
      await removeFolder();
    };
    return { client: new Sandpool({ url: server.url, apiKey: server.key }), stop };
  } catch (error) {
    await removeFolder();
    throw error;
  }
}
