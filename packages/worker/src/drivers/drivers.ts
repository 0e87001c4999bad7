import type { Driver, DriverName } from "./driver.ts";
import { GvisorDriver } from "./gvisor/driver.ts";
import { NamespaceDriver } from "./namespace/driver.ts";
import { UnisolatedDriver } from "./unisolated/driver.ts";

export interface DriverOptions {
  /** The server's data folder: the identity under which everything on the host is found again after a crash. */
  dataDir: string;
  /** The agent's binary on the host. Without it every spec needs `argv`. */
  agentPath: string | null;
  /** Warnings worth one line in the server's log. */
  warn?: (message: string) => void;
}

/** Makes the driver of that name; `probe` says whether it can work here. `unisolated` is never chosen unless named. */
export function createDriver(name: DriverName, options: DriverOptions): Driver {
  switch (name) {
    case "namespace":
      return new NamespaceDriver(options);
    case "gvisor":
      return new GvisorDriver(options);
    case "unisolated":
      return new UnisolatedDriver(options);
  }
}
