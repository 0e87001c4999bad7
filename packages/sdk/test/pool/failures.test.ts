import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Transport } from "../../src/http/transport.ts";
import { Batches, type Operation } from "../../src/pool/batches.ts";
import { jsonRequest } from "../../src/pool/requests.ts";
import { PoolTiming } from "../../src/pool/timing.ts";

interface Answer {
  status: number;
  body: unknown;
}

let server: Server;
let transport: Transport;
let batches: Batches;
let answers: Answer[];
let received: { path: string | undefined; seq: number }[];

beforeEach(async () => {
  answers = [];
  received = [];
  server = createServer(async (request, response) => {
    const { seq } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as { seq: number };
    received.push({ path: request.url, seq });
    const { status, body } = answers.shift() as Answer;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  transport = new Transport({ url, key: "key" }, { dedicated: true });
  batches = new Batches(transport, "/v1/pools/p", new PoolTiming(), 1);
});

afterEach(() => {
  transport.close();
  server.close();
});

const good: Answer = { status: 200, body: {} };
const failed = (details: object): Answer => ({
  status: 502,
  body: { error: { code: "agent_failed", message: "odd", hint: null, details } },
});

/** Sends a batch of no content. */
async function run(operation: Operation): Promise<void> {
  await batches.run({
    operation,
    encode: jsonRequest({}),
    timeoutMs: 5000,
    readJson: async (reply) => {
      await reply.body.dump();
      return { timing: { worker_ms: 0, stragglers: [] } as never, absorb: () => undefined };
    },
  });
}

const sent = (): unknown[] => received.map(({ path, seq }) => [path?.split("/").at(-1), seq]);

test("a save that kept nothing leaves its number to the next batch, and is not repeated", async () => {
  answers = [failed({ next_seq: 1 }), good, good];
  await expect(run("save")).rejects.toMatchObject({ code: "agent_failed" });
  await run("step");
  await run("save");
  expect(sent()).toEqual([
    ["states", 1],
    ["step", 1],
    ["states", 2],
  ]);
});

test("a batch that failed with its number used up is followed by the next number", async () => {
  answers = [failed({ next_seq: 2 }), good];
  await expect(run("fork")).rejects.toMatchObject({ code: "agent_failed" });
  await run("step");
  expect(sent()).toEqual([
    ["fork", 1],
    ["step", 2],
  ]);
});

test("a failure that does not say what became of the batch has it repeated once, never for ever", async () => {
  answers = [failed({}), failed({}), good];
  await expect(run("step")).rejects.toMatchObject({ code: "agent_failed" });
  await run("reset");
  expect(sent()).toEqual([
    ["step", 1],
    ["step", 1],
    ["reset", 1],
  ]);
});
