import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { makeMachineHost } from "../drivers/machines/support.ts";
import type { Said } from "./real-attempts.ts";
import { places, World } from "./world.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });

const program = fileURLToPath(new URL("./real-machine.ts", import.meta.url));
const refused = "Connection refused";
const unreachable = "Network is unreachable";

for (const name of ["namespace", "gvisor"] as const) {
  const probing = makeMachineHost(name);
  const probe = await probing.driver.probeMachines();
  probing.remove();
  if (!probe.available) console.log(`skipped: networks of ${name} machines: ${probe.reason} (${probe.hint})`);

  describe.skipIf(!probe.available)(`networks of ${name} machines`, () => {
    let world: World;

    beforeAll(async () => {
      world = await World.make();
      for (const [what, address] of Object.entries({
        internet: places.public,
        metadata: places.metadata,
        private: places.private,
      }))
        await world.internet.serve(what, address, 8080);
      await world.internet.serve("listed", places.public, 443);
      await world.internet.serveDatagrams("private", places.private, 9999);
      await world.host.serve("host", places.host, 8080);
      await world.host.serveNames("127.0.0.1", 5353, { "one.example": [places.public] });
    });
    afterAll(() => world?.end());

    test("class 43, 44, 46: each policy holds in a real machine, and after a restart of the server", async () => {
      const { said, left } = JSON.parse(
        await world.host.run([process.execPath, "--disable-warning=ExperimentalWarning", program, name]),
      ) as {
        said: Record<string, Said>;
        left: string[];
      };
      const denied = { metadata: refused, private: refused, host: refused, datagram: refused };
      const open = {
        ...denied,
        public: `internet ${places.host}`,
        name: places.public,
        proxied: "no proxy",
        interfaces: "eth0 lo",
      };
      const egress = { ...open, public: refused, proxied: "HTTP/1.1 200 Connection established" };
      const none = { metadata: unreachable, private: unreachable, host: unreachable, datagram: unreachable };
      const isolated = { ...none, public: unreachable, name: unreachable, proxied: "no proxy", interfaces: "lo" };
      expect(said).toEqual({
        ...{ open, egress, isolated },
        ...{ "open, adopted": open, "egress, adopted": egress, "isolated, adopted": isolated },
      });
      expect(left).toEqual([]);
      expect(await world.leftovers()).toEqual([]);
    });
  });
}
