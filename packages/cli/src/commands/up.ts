import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { credentialsPath } from "sandpool";
import { EXIT, UsageError } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";
import { type RunningServer, startServer } from "../server/start.ts";
import { untilStopped } from "../server/untilStopped.ts";
import { VERSION } from "../version.ts";

export interface UpOptions {
  listen: string;
  data: string;
  insecure: boolean;
  allowUnisolated: boolean;
  tlsCert?: string;
  tlsKey?: string;
  logLevel?: string;
  privateHost: string[];
  machinesMayReach: string[];
  allowHost: string[];
  machines?: number;
  diskSaveInterval?: number;
}

/** Runs server and worker in this process until SIGTERM, Ctrl-C or `sandpool down`. */
export async function up(output: Output, options: UpOptions): Promise<number> {
  const tls = await readTls(options);
  const { createLogger } = await import("@sandpool/server");
  // Standard output carries the ready line; a person's terminal gets warnings only.
  const level = options.logLevel ?? (process.stderr.isTTY ? "warn" : "info");
  const logger = createLogger({ level, destination: process.stderr });
  const firstStart = !existsSync(options.data);
  const stopping = untilStopped(output);
  const server = await startServer({
    dataDir: options.data,
    listen: options.listen,
    insecure: options.insecure,
    tls,
    logger,
    privateHosts: options.privateHost,
    machinesMayReach: options.machinesMayReach,
    allowUnisolated: options.allowUnisolated,
    allowedHosts: options.allowHost,
    ...(options.machines === undefined ? {} : { machines: options.machines }),
    ...(options.diskSaveInterval === undefined ? {} : { diskSaveInterval: options.diskSaveInterval }),
  });
  announce(output, server, options.data, firstStart);
  const cause = await stopping;
  const stopMachines = cause === "SIGUSR2";
  const what = stopMachines ? "closing pools, stopping machines" : "closing pools";
  if (!output.json) output.line(`Stopping (${cause}): ${what}. Again to force.`);
  await server.stop({ stopMachines });
  farewell(output, cause, server.runningMachines());
  return EXIT.ok;
}

/** Says what keeps running without the server. */
function farewell(output: Output, cause: string, machines: readonly { id: string; name: string }[]): void {
  if (output.json) {
    output.document({ event: "stopped", cause, machines_running: machines.map(({ id, name }) => ({ id, name })) }, 0);
  } else if (machines.length === 0) {
    output.line("Stopped: every pool is closed, nothing keeps running.");
  } else {
    const names = machines.map(({ name }) => safe(name)).join(", ");
    output.line(
      `Stopped: every pool is closed. Machines keep running: ${names}. The next start takes them over; "sandpool down" stops them.`,
    );
  }
}

function announce(output: Output, server: RunningServer, dataDir: string, firstStart: boolean): void {
  const credentials = placeOfCredentials();
  if (output.json) {
    output.document(
      {
        event: "ready",
        version: VERSION,
        url: server.url,
        data: dataDir,
        first_start: firstStart,
        credentials,
        pid: process.pid,
      },
      0,
    );
    return;
  }
  const { bold, green, cyan } = output.colors;
  const made = firstStart ? `made data folder ${safe(dataDir)} and a key` : `data in ${safe(dataDir)}`;
  output.line(
    `${green(bold(`Sandpool ${VERSION} is ready`))} at ${cyan(server.url)} (${made}; url and key in ${safe(credentials)}; Ctrl-C stops)`,
  );
}

async function readTls(options: UpOptions): Promise<{ cert: Buffer; key: Buffer } | null> {
  const { tlsCert, tlsKey } = options;
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert === undefined || tlsKey === undefined) {
    const [given, missing] = tlsKey === undefined ? ["--tls-cert", "--tls-key"] : ["--tls-key", "--tls-cert"];
    throw new UsageError(`${given} was given without ${missing}; expected both.`, `Give ${missing} FILE too (PEM).`);
  }
  return { cert: await readFile(tlsCert), key: await readFile(tlsKey) };
}

/** Under sudo the server leaves the file with the account that called it. */
function placeOfCredentials(): string {
  const throughSudo = process.geteuid?.() === 0 && Number(process.env.SUDO_UID) > 0;
  return throughSudo ? `the credentials file of ${process.env.SUDO_USER ?? "the calling account"}` : credentialsPath();
}
