// A server that makes one machine and waits to be killed. Arguments: driver, data folder, machine id.
import { findAgent } from "../../../src/agent/find.ts";
import { createMachineDriver } from "../../../src/drivers/machines/create.ts";

const [name = "", dataDir = "", id = ""] = process.argv.slice(2);
const driver = createMachineDriver(name === "gvisor" ? "gvisor" : "namespace", { dataDir, agentPath: findAgent() });
console.log("begins");
await driver.prepare(
  {
    ...{ id, hostname: "box", image: { kind: "host" }, vcpu: 1, memoryBytes: 2 ** 28, diskBytes: 2 ** 26 },
    ...{ processes: 64, environ: {}, network: { kind: "none" } },
  },
  AbortSignal.timeout(60_000),
);
await driver.launch(id);
console.log("runs");
setInterval(() => undefined, 60_000);
