import type { MachineDriver, MachineDriverName } from "../drivers/machine.ts";
import type { ImageStore } from "../images/contract.ts";
import type { Networks } from "../network/contract.ts";

export interface MachineHostOptions {
  dataDir: string;
  drivers: ReadonlyMap<MachineDriverName, MachineDriver>;
  images: Pick<ImageStore, "resolve">;
  networks: Networks;
  /** Machines that are made at the same time; the others wait. Default: the processors and two. */
  startsAtOnce?: number;
  warn?: (message: string) => void;
}
