// Prints what the driver of that name finds on this host.
import { findAgent } from "../../../src/agent/find.ts";
import { createMachineDriver } from "../../../src/drivers/machines/create.ts";

const [name = "", dataDir = ""] = process.argv.slice(2);
const driver = createMachineDriver(name === "gvisor" ? "gvisor" : "namespace", { dataDir, agentPath: findAgent() });
console.log(JSON.stringify(await driver.probeMachines()));
