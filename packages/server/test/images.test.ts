import { createConnection } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { makeLayer, makeStore, type StoreBench } from "../../worker/test/images/support.ts";
import { startTestServer, type TestServer, until } from "./startTestServer.ts";
import { TestWorker } from "./testWorker.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");

const NDJSON = { accept: "application/x-ndjson", "content-type": "application/x-tar" };

/** A server whose images are real. */
async function startWithImages(): Promise<{ server: TestServer; bench: StoreBench; other: string }> {
  const bench = await makeStore();
  onTestFinished(() => bench.remove());
  const realWorker = Object.assign(new TestWorker(), { images: bench.store });
  const server = await startTestServer({ realWorker });
  const other = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
  return { server, bench, other };
}

function put(
  server: TestServer,
  name: string,
  body: Buffer,
  more: { key?: string; headers?: Record<string, string> } = {},
) {
  return server.send({ method: "PUT", path: `/v1/images?name=${name}`, body, headers: NDJSON, ...more });
}

function lines(bytes: Buffer): Record<string, unknown>[] {
  return bytes
    .toString()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test.skipIf(!isRoot)(
  "an import tells its progress line by line and ends with the image, which is then listed",
  async () => {
    const { server } = await startWithImages();
    const tar = await makeLayer([{ name: "etc/x", content: "1" }]);
    const reply = await put(server, "base", tar);
    expect([reply.status, reply.headers["content-type"]]).toEqual([201, "application/x-ndjson"]);
    const events = lines(reply.bytes);
    expect(events.slice(0, -1).every(({ event }) => event === "progress" || event === "heartbeat")).toBe(true);
    const last = events.at(-1) as { event: string; image: { id: string; name: string } };
    expect(last).toMatchObject({ event: "image", image: { name: "base", kind: "imported" } });
    const { images } = (await server.send({ path: "/v1/images" })).json as { images: { id: string }[] };
    expect(images.map(({ id }) => id)).toEqual(["host", last.image.id, null, null, null]);
    expect(server.logLines.some((line) => line.includes('"kind":"image.import"') && line.includes('"done"'))).toBe(
      true,
    );
  },
);

test.skipIf(!isRoot)("a plain answer is the image, or the error with its status", async () => {
  const { server, bench } = await startWithImages();
  const plain = { headers: { "content-type": "application/x-tar" } };
  const tar = await makeLayer([{ name: "etc/x", content: "1" }]);
  expect(await put(server, "base", tar, plain)).toMatchObject({ status: 201, json: { name: "base" } });
  const bad = await makeLayer([{ name: "odd", type: "fifo" }]);
  expect(await put(server, "bad", bad, plain)).toMatchObject({
    status: 422,
    json: { error: { code: "image_failed" } },
  });
  const lost = lines((await put(server, "bad", bad)).bytes).at(-1);
  expect(lost).toMatchObject({ event: "error", status: 422, error: { code: "image_failed" } });
  for (const body of [
    { build: "nothing" },
    { pull: "http://x" },
    { pull: "127.0.0.1:1/a" },
    {},
    { build: "a", pull: "b" },
  ]) {
    const reply = await server.post("/v1/images", body);
    expect([400, 404, 422]).toContain(reply.status);
    expect(reply.json.error?.code).toMatch(/^(image_not_found|invalid_request|image_failed)$/);
  }
  expect(bench.incoming()).toEqual([]);
});

test.skipIf(!isRoot)("any key makes and sees images; only an administrator's removes or replaces them", async () => {
  const { server, other } = await startWithImages();
  const [one, two] = [await makeLayer([{ name: "a" }]), await makeLayer([{ name: "b" }])];
  expect((await put(server, "base", one, { key: other })).status).toBe(201);
  expect((await put(server, "base", two, { key: other })).json.error?.code ?? "").toBe("forbidden");
  const remove = (key?: string) =>
    server.send({ method: "DELETE", path: "/v1/images/base", ...(key === undefined ? {} : { key }) });
  expect((await remove(other)).json.error?.code).toBe("forbidden");
  expect((await remove()).json).toMatchObject({ removed: true, id: expect.stringMatching(/^sha256:/) });
  expect((await remove()).json.error?.code).toBe("image_not_found");
  expect((await server.send({ method: "DELETE", path: "/v1/images/host" })).json.error?.code).toBe("invalid_request");
});

test.skipIf(!isRoot)("row 30: an upload that breaks off leaves nothing, and its operation has failed", async () => {
  const { server, bench } = await startWithImages();

  const head =
    `PUT /v1/images?name=base HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: Bearer ${server.running.key}\r\n` +
    "Content-Type: application/x-tar\r\nContent-Length: 100000\r\n\r\nbegin";
  const socket = createConnection(server.port, "127.0.0.1", () => socket.write(head));
  await until(() => bench.incoming().length > 0);
  socket.destroy();
  await until(() =>
    server.logLines.some((line) => line.includes('"kind":"image.import"') && line.includes('"failed"')),
  );
  expect(bench.incoming()).toEqual([]);
  expect(bench.kept()).toEqual([]);
});
