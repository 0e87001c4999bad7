import { ConnectionError, Sandpool, SandpoolError } from "sandpool";

/**
 * A client of the configured server, or null when none is configured or the configured one is gone. Explicit settings
 * (SANDPOOL_URL) that lead nowhere are an error, so a check never silently runs somewhere else.
 */
export async function findRunningServer(): Promise<Sandpool | null> {
  try {
    const client = new Sandpool();
    await client.health();
    return client;
  } catch (error) {
    const explicit = Boolean(process.env.SANDPOOL_URL);
    const absent =
      error instanceof ConnectionError || (error instanceof SandpoolError && error.code === "no_server_configured");
    if (absent && !explicit) return null;
    throw error;
  }
}
