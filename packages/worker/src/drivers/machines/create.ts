import type { DriverOptions } from "../drivers.ts";
import { gvisorKind } from "../gvisor/kind.ts";
import type { MachineDriver, MachineDriverName } from "../machine.ts";
import { namespaceKind } from "../namespace-machine/kind.ts";
import { OciMachineDriver } from "./driver.ts";

/** Makes the driver of that name; `probeMachines` says whether it can work here. */
export function createMachineDriver(name: MachineDriverName, options: DriverOptions): MachineDriver {
  return new OciMachineDriver(name === "gvisor" ? gvisorKind : namespaceKind, options);
}
