import { randomInt } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { leaks } from "./audit.ts";
import { FaultServer } from "./faultServer.ts";
import { MixClient, type Weather } from "./mixClient.ts";
import { Random } from "./random.ts";
import { expectNoLeaks } from "./round.ts";

/** `SANDPOOL_SEED=N` plays a mix again. */
const IS_SOAK = process.env.SANDPOOL_SOAK === "1";
const OPERATIONS = IS_SOAK ? 2_000 : 300;
const CLIENTS = 16;
/** More than what a collection leaves by chance, less than the outputs that one fifth of the operations carries. */
const MEMORY_SLACK_BYTES = 12 * 2 ** 20;
vi.setConfig({ testTimeout: IS_SOAK ? 7_200_000 : 900_000, hookTimeout: 300_000 });

let server: FaultServer;
beforeAll(async () => {
  server = await FaultServer.start();
});
afterAll(() => server?.remove());

test(`rows 11, 28, 32, 33: ${OPERATIONS} operations of ${CLIENTS} clients agree with a model, whatever is killed`, async () => {
  const seed = Number(process.env.SANDPOOL_SEED ?? randomInt(2 ** 31));
  const weather: Weather = { restarts: 0, isRestarting: false };
  const seeds = new Random(seed);
  const clients = Array.from({ length: CLIENTS }, (_, index) => {
    return new MixClient(index, server, new Random(seeds.below(2 ** 32)), weather);
  });
  expect(leaks(server, [])).toEqual([]);
  try {
    const part = Math.ceil(OPERATIONS / CLIENTS / 5);
    for (const signal of ["SIGKILL", "SIGTERM", "SIGKILL"] as const) {
      await Promise.all([...clients.map((client) => play(client, part)), restartMeanwhile(weather, signal)]);
    }
    // The memory of a server that has done much, and of one that has done more.
    await Promise.all(clients.map((client) => play(client, part)));
    const before = await server.measure();
    await Promise.all(clients.map((client) => play(client, part)));
    expect((await server.measure()) - before).toBeLessThan(MEMORY_SLACK_BYTES);
    for (const client of clients) await client.verify();
    const known = clients.flatMap(({ machineId }) => machineId ?? []);
    await expectNoLeaks(server, known, "with the machines that are known");
    for (const id of known) await server.client.machines.delete(id);
    await expectNoLeaks(server, [], "with no machine left");
  } catch (error) {
    const histories = clients.map(({ name, history }) => `${name}: ${history.join(" ")}`).join("\n");
    throw new Error(`seed ${seed}: ${(error as Error).message}\n${histories}\n${server.log}`, { cause: error });
  }
});

async function play(client: MixClient, count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) {
    try {
      await client.step();
    } catch (error) {
      throw new Error(`${client.name} at ${client.history.length}: ${(error as Error).message}`, { cause: error });
    }
  }
}

/** Once a good part of the clients is at work. */
async function restartMeanwhile(weather: Weather, signal: NodeJS.Signals): Promise<void> {
  await server.client.machines.list();
  weather.isRestarting = true;
  weather.restarts += 1;
  await server.restart(signal);
  weather.isRestarting = false;
}
