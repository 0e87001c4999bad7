import { afterAll, beforeAll, vi } from "vitest";
import { type Machine, type MachineOptions, type Machines, Sandpool } from "../../src/index.ts";
import { startServer, type TestServer } from "./server.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

/** A server of its own with one machine that the tests of a file share. */
export class MachineBench {
  readonly server: TestServer;
  readonly client: Sandpool;
  /** The shared machine's id. */
  readonly box: string;

  constructor(server: TestServer, client: Sandpool, box: string) {
    this.server = server;
    this.client = client;
    this.box = box;
  }

  get machines(): Machines {
    return this.client.machines;
  }

  newMachine(options: MachineOptions = {}): Promise<Machine> {
    return newMachine(this.client, options);
  }

  /** A server leaves machines running when it stops, so they are deleted before. */
  async stop(): Promise<void> {
    for (const { id } of await this.machines.list()) await this.machines.delete(id);
    await this.server.stop();
  }
}

/** The bench of a test file; `options` are those of `sandpool up`. */
export function useMachines(...options: string[]): () => MachineBench {
  let bench: MachineBench | undefined;
  beforeAll(async () => {
    const server = await startServer(...options);
    const client = new Sandpool({ url: server.url, apiKey: server.key });
    bench = new MachineBench(server, client, (await newMachine(client, { name: "box" })).id);
  });
  afterAll(() => bench?.stop());
  return () => bench as MachineBench;
}

function newMachine(client: Sandpool, options: MachineOptions): Promise<Machine> {
  return client.machines.create({ driver: "namespace", isolated: true, ...options });
}
