import type { ImageStore, MachineHost, Networks } from "@sandpool/worker";
import type { Logger } from "pino";
import type { Identity } from "../keys/keyring.ts";
import type { ServerLimits } from "../options.ts";
import type { OperationJournal } from "../store/operations.ts";
import type { StartQueue } from "./admission.ts";
import type { MachineEntry } from "./entry.ts";
import type { MachineRegistry } from "./registry.ts";

/** What every verb of a machine works with. */
export interface MachineContext {
  host: MachineHost;
  images: ImageStore;
  networks: Networks;
  registry: MachineRegistry;
  journal: OperationJournal;
  queue: StartQueue;
  limits: ServerLimits;
  dataDir: string;
  logger: Logger;
  /** Of the host's present boot. */
  bootId: string;
}

/** Who acts where nobody asked: a lease that ran out, a crash, a start of the server. */
export function serverItself(entry: MachineEntry): Identity {
  return { keyId: "server", owner: entry.record.owner, admin: false, revoked: false };
}
