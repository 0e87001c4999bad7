import { afterAll, beforeAll, describe, expect, onTestFailed, test, vi } from "vitest";
import { FaultServer } from "./faultServer.ts";
import type { Fault, Step } from "./messages.ts";
import { type Bystander, expectNoLeaks, makeBystander, type Plan, playRound, VERBS } from "./round.ts";

/** `make soak` plays every step of every verb alone; `make test` a few, with all verbs under way at once. */
const IS_SOAK = process.env.SANDPOOL_SOAK === "1";
vi.setConfig({ testTimeout: IS_SOAK ? 7_200_000 : 900_000, hookTimeout: 300_000 });

const DRIVERS = ["namespace", "gvisor"] as const;
const ROUNDS: Readonly<Record<Fault, number>> = { kill: 4, terminate: 1, shim: 4, runtime: 3 };

let server: FaultServer;
let bystander: Bystander;

beforeAll(async () => {
  server = await FaultServer.start();
  bystander = await makeBystander(server);
});
afterAll(() => server?.remove());

describe.each(DRIVERS)("machines of the %s driver", (driver) => {
  const network = driver === "namespace" ? "open" : "isolated";
  const groups = IS_SOAK ? VERBS.map((verb) => [verb]) : [VERBS];

  test.each([
    ["the server's kill", "kill"],
    ["the server's restart", "terminate"],
    ["a kill of the shim", "shim"],
    ["a kill of the runtime", "runtime"],
  ] as const)(
    "row 32, row 33, row 38: %s at any step of create, stop, start and delete leaves what is known, and nothing else",
    async (_name, fault) => {
      onTestFailed(() => console.log(server.log));
      for (const verbs of groups) {
        const plan: Plan = { verbs, driver, network, fault, at: null };
        const noted = await playRound(server, bystander, plan);
        const steps = distinct(noted?.steps ?? []);
        expect(steps.length).toBeGreaterThan(10);
        for (const at of IS_SOAK ? steps : spread(steps, ROUNDS[fault])) {
          await playRound(server, bystander, { ...plan, at });
        }
      }
    },
  );
});

test("nothing is left of a server that is stopped with its machines", async () => {
  await server.client.machines.delete(bystander.id);
  await expectNoLeaks(server, [], "the end");
});

/** Each kind of step at its first and at its last time. */
function distinct(steps: readonly Step[]): Step[] {
  return steps.filter(({ label, earlier }) => {
    return earlier === 0 || !steps.some((other) => other.label === label && other.earlier > earlier);
  });
}

/** So many of them, evenly. */
function spread(steps: readonly Step[], count: number): Step[] {
  return Array.from({ length: count }, (_, index) => {
    return steps[Math.floor(((index + 0.5) * steps.length) / count)] as Step;
  });
}
