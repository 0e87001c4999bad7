import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { extract, pack } from "tar-stream";
import { describe, expect, test } from "vitest";
import { readRange } from "../../src/files/range.ts";
import { sha256, useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";

const server = useMachines({
  limits: { bodyIdleMs: 1_000, heartbeatMs: 100, requestTimeoutMs: 1_500, connectionsCheckMs: 50 },
});
const base = () => `/v1/machines/${server().box}/files`;
const at = (path: string, more = "") => `${base()}?path=${encodeURIComponent(path)}${more}`;

function put(path: string, body: Buffer | string, headers: Record<string, string> = {}, more = "") {
  const type = { "content-type": "application/octet-stream" };
  return server().api.send({
    method: "PUT",
    path: at(path, more),
    body: Buffer.from(body),
    headers: { ...type, ...headers },
  });
}

const get = (path: string, headers: Record<string, string> = {}) => server().api.send({ path: at(path), headers });
const post = (verb: string, body: object) => server().api.post(`${base()}/${verb}`, body);

async function bytesOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Everything in a folder, hidden files and unfinished ones too. */
const namesIn = async (folder: string) => (await server().run(`ls -A ${folder}`)).split("\n").filter(Boolean);

describe("row 23, row 24: an upload", () => {
  test("of any bytes is there as it was sent, with its hash, mode and user", async () => {
    const body = randomBytes(3 * 2 ** 20 + 17);
    const written = await put("/up/a/b.bin", body, {}, "&mode=0640&user=1234:5678");
    expect(written.status).toBe(403);
    await post("make", { path: "/up", mode: 0o777 });
    const allowed = await put("/up/a/b.bin", body, {}, "&mode=0640&user=1234:5678");
    expect(allowed.json).toEqual({ bytes: body.length, sha256: sha256(body) });
    const look = await server().exec({
      command: "sha256sum < /up/a/b.bin; stat -c '%a %u %g' /up/a/b.bin",
      user: "1234",
    });
    expect(look.stdout).toBe(`${sha256(body)}  -\n640 1234 5678\n`);
    const chunked = await put("/up/c", "chunked", { "transfer-encoding": "chunked" });
    expect(chunked.json).toEqual({ bytes: 7, sha256: sha256("chunked") });
    expect((await put("/up/empty", "")).json.bytes).toBe(0);
    expect((await put("/no/parents", "x", {}, "&parents=false")).json.error?.code).toBe("file_not_found");
  });

  test("row 23: with another hash than announced, or a body that breaks off or stands still, leaves what was there", async () => {
    await put("/kept/file", "before");
    const wrong = await put("/kept/file", "after", { "x-sandpool-sha256": sha256("other") });
    expect([wrong.status, wrong.json.error?.code]).toEqual([400, "file_hash_mismatch"]);
    const right = await put("/kept/right", "after", { "x-sandpool-sha256": sha256("after").toUpperCase() });
    expect(right.status).toBe(200);
    expect((await put("/kept/x", "x", { "x-sandpool-sha256": "x" })).json.error?.code).toBe("invalid_request");
    expect((await put("/kept/x", "x", { "content-encoding": "gzip" })).status).toBe(415);
    for (const framing of ["Content-Length: 900000", "Transfer-Encoding: chunked"]) {
      const socket = connect(server().api.port, "127.0.0.1");
      const head =
        `PUT ${at("/kept/file")} HTTP/1.1\r\nHost: 127.0.0.1:${server().api.port}\r\n` +
        `Authorization: Bearer ${server().api.running.key}\r\n${framing}\r\n\r\n`;
      const some = "x".repeat(300_000);
      socket.write(head + (framing.startsWith("C") ? some : `${some.length.toString(16)}\r\n${some}\r\n`));
      await until(async () => (await namesIn("/kept")).length > 2);
      socket.destroy();
      await until(async () => (await namesIn("/kept")).length === 2);
    }
    const still = httpRequest({
      host: "127.0.0.1",
      port: server().api.port,
      method: "PUT",
      path: at("/kept/file"),
      headers: { authorization: `Bearer ${server().api.running.key}`, "content-length": 10 },
      agent: false,
    });
    still.on("error", () => {});
    still.write("12345");
    const [reply] = await once(still, "response");
    expect(reply.statusCode).toBe(408);
    still.destroy();
    expect(await server().run("cat /kept/file; ls -A /kept")).toBe("beforefile\nright\n");
  });

  test("to where it cannot go says why", async () => {
    await put("/why/file", "x");
    for (const [path, code] of [
      ["/why", "file_invalid"],
      ["/why/file/below", "file_invalid"],
      ["/dev/null", "file_invalid"],
    ] as const) {
      const refused = await put(path, "y");
      expect([path, refused.json.error?.code]).toEqual([path, code]);
    }
    for (const path of ["", "relative", "/a\0b", `/${"a".repeat(4096)}`]) {
      expect((await put(path, "y")).status).toBe(400);
    }
    const unknown = await server().api.send({ path: at("/why", "&extra=1") });
    expect(unknown.status).toBe(400);
  });
});

describe("a download", () => {
  test("is the file, a range of it, or its head", async () => {
    const body = randomBytes(2 * 2 ** 20 + 5);
    await put("/down/file", body);
    const whole = await get("/down/file");
    expect([whole.status, sha256(whole.bytes)]).toEqual([200, sha256(body)]);
    expect(whole.headers).toMatchObject({
      "content-length": String(body.length),
      "accept-ranges": "bytes",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
    });
    for (const [range, from, to] of [
      ["bytes=0-0", 0, 1],
      ["bytes=5-1048580", 5, 1_048_581],
      [`bytes=${body.length - 3}-`, body.length - 3, body.length],
      ["bytes=-7", body.length - 7, body.length],
      ["bytes=2097152-99999999", 2_097_152, body.length],
    ] as const) {
      const part = await get("/down/file", { range });
      expect([range, part.status, part.headers["content-range"]]).toEqual([
        range,
        206,
        `bytes ${from}-${to - 1}/${body.length}`,
      ]);
      expect(part.bytes.equals(body.subarray(from, to))).toBe(true);
    }
    const beyond = await get("/down/file", { range: `bytes=${body.length}-` });
    expect([beyond.status, beyond.json.error?.code, beyond.json.error?.details.size]).toEqual([
      416,
      "range_invalid",
      body.length,
    ]);
    expect((await get("/down/file", { range: "bytes=0-1,4-5" })).status).toBe(200);
    const head = await server().api.send({ method: "HEAD", path: at("/down/file") });
    expect([head.status, head.headers["content-length"], head.bytes.length]).toEqual([200, String(body.length), 0]);
    await put("/down/empty", "");
    expect((await get("/down/empty")).bytes.length).toBe(0);
    expect((await get("/down/empty", { range: "bytes=0-" })).status).toBe(200);
  });

  test("of what is endless or no file is refused at once; the kernel's own files are read", async () => {
    await server().run(
      "mkdir -p /odd && mkfifo /odd/fifo && ln -sf /odd/fifo /odd/link && ln -sf /nowhere /odd/broken",
    );
    for (const [path, code] of [
      ["/odd/fifo", "file_invalid"],
      ["/odd/link", "file_invalid"],
      ["/odd", "file_invalid"],
      ["/dev/zero", "file_invalid"],
      ["/odd/broken", "file_not_found"],
      ["/odd/none", "file_not_found"],
    ] as const) {
      const refused = await get(path);
      expect([path, refused.json.error?.code]).toEqual([path, code]);
      if (code === "file_invalid") expect(refused.json.error?.details.path).toBe(path);
    }
    expect((await get("/proc/self/status")).bytes.toString()).toContain("Name:");
    const kmsg = await get("/proc/kmsg");
    expect(["permission_denied", "file_invalid", "file_not_found"]).toContain(kmsg.json.error?.code);
    await server().run("touch /odd/secret && chmod 600 /odd/secret");
    const denied = await server().api.send({ path: at("/odd/secret", "&user=1234:5678") });
    expect([denied.status, denied.json.error?.code]).toEqual([403, "permission_denied"]);
  });
});

test("row 25: an upload that goes on is not cut off, however long it takes", async () => {
  const request = httpRequest({
    host: "127.0.0.1",
    port: server().api.port,
    method: "PUT",
    path: at("/slow"),
    headers: { authorization: `Bearer ${server().api.running.key}` },
    agent: false,
  });
  const answered = once(request, "response");
  // Longer than any other request may take here.
  const pieces = Array.from({ length: 12 }, (_, piece) => `piece ${piece} `);
  for (const piece of pieces) {
    request.write(piece);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  request.end();
  expect((await answered)[0].statusCode).toBe(200);
  expect((await get("/slow")).bytes.toString()).toBe(pieces.join(""));
});

test("row 25: a quarter of a gigabyte goes up and down through flat memory", async () => {
  const size = 256 * 2 ** 20;
  const piece = Buffer.alloc(2 ** 20, "any bytes ");
  const hash = createHash("sha256");
  for (let sent = 0; sent < size; sent += piece.length) hash.update(piece);
  const expected = hash.digest("hex");
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 10);
  const request = httpRequest({
    host: "127.0.0.1",
    port: server().api.port,
    method: "PUT",
    path: at("/large"),
    headers: {
      authorization: `Bearer ${server().api.running.key}`,
      "content-length": size,
      "x-sandpool-sha256": expected,
    },
    agent: false,
  });
  const answered = once(request, "response");
  for (let sent = 0; sent < size; sent += piece.length) if (!request.write(piece)) await once(request, "drain");
  request.end();
  const [reply] = await answered;
  expect(JSON.parse(String(Buffer.concat(await reply.toArray())))).toEqual({ bytes: size, sha256: expected });
  const received = createHash("sha256");
  for await (const chunk of await server().open(at("/large"))) received.update(chunk as Buffer);
  clearInterval(watch);
  expect(received.digest("hex")).toBe(expected);
  expect(peak - before).toBeLessThan(160 * 2 ** 20);
  await post("remove", { path: "/large" });
});

describe("a tree", () => {
  test("goes in and comes out as a tar", async () => {
    const tar = pack();
    tar.entry({ name: "a/", type: "directory" });
    tar.entry({ name: "a/one.txt", mode: 0o755 }, "one");
    tar.entry({ name: "a/link", type: "symlink", linkname: "one.txt" });
    tar.finalize();
    const body = await bytesOf(tar);
    const path = `${base()}/tree?path=/tree`;
    const headers = { "content-type": "application/x-tar" };
    const written = await server().api.send({ method: "PUT", path, body, headers });
    expect([written.status, written.json.entries]).toEqual([200, 3]);
    expect(await server().run("/tree/a/one.txt 2>&1 || cat /tree/a/link; stat -c %a /tree/a/one.txt")).toContain("755");
    const found: Record<string, string> = {};
    const reader = extract();
    reader.on("entry", (entry, content, next) => {
      content.on("end", next).resume();
      found[entry.name] = `${entry.type} ${entry.linkname ?? ""}`.trim();
    });
    const out = await server().api.send({ path });
    expect(out.headers["content-type"]).toBe("application/x-tar");
    reader.end(out.bytes);
    await once(reader, "finish");
    const names = Object.keys(found).map((name) => name.replace(/^\.\//, "").replace(/\/$/, ""));
    expect(names).toEqual(expect.arrayContaining(["a", "a/one.txt", "a/link"]));
  });

  test("that leads out of its folder or is no tar is refused; one that is not there is not found", async () => {
    const tar = pack();
    tar.entry({ name: "../../escaped" }, "out");
    tar.finalize();
    const path = `${base()}/tree?path=/inner/tree`;
    for (const body of [await bytesOf(tar), Buffer.from("no tar at all".repeat(100))]) {
      const refused = await server().api.send({
        method: "PUT",
        path,
        body,
        headers: { "content-type": "application/x-tar" },
      });
      expect([refused.status >= 400, refused.status < 500]).toEqual([true, true]);
    }
    expect((await server().exec({ command: "ls /escaped /inner/escaped" })).exit_code).not.toBe(0);
    expect((await server().api.send({ path: `${base()}/tree?path=/no/such` })).json.error?.code).toBe("file_not_found");
  });
});

describe("the small calls", () => {
  test("list, stat, make, move and remove", async () => {
    expect((await post("make", { path: "/small/deep/er", mode: 0o777 })).json).toEqual({});
    expect(await server().run("stat -c %a /small/deep /small/deep/er")).toBe("755\n777\n");
    await put("/small/b", "bb");
    await put("/small/a", "a");
    await server().run("ln -s a /small/link");
    const list = await server().api.send({ path: `${base()}/list?path=/small&depth=2` });
    const entries = list.json.entries as { path: string; kind: string; size: number; target: string | null }[];
    expect(entries.map(({ path, kind }) => [path, kind])).toEqual([
      ["/small/a", "file"],
      ["/small/b", "file"],
      ["/small/deep", "folder"],
      ["/small/deep/er", "folder"],
      ["/small/link", "link"],
    ]);
    expect([entries[1]?.size, entries[4]?.target, list.json.more]).toEqual([2, "a", false]);
    const after = await server().api.send({ path: `${base()}/list?path=/small&after=/small/b` });
    expect((after.json.entries as { name: string }[]).map(({ name }) => name)).toEqual(["deep", "link"]);
    const stat = async (more = "") =>
      (await server().api.send({ path: `${base()}/stat?path=/small/link${more}` })).json.entry;
    expect(await stat()).toMatchObject({ kind: "link", target: "a" });
    expect(await stat("&follow=true")).toMatchObject({ kind: "file", size: 1 });
    expect((await post("move", { from: "/small/a", to: "/small/b" })).json.error?.code).toBe("file_exists");
    expect((await post("move", { from: "/small/a", to: "/small/b", replace: true })).status).toBe(200);
    expect((await get("/small/b")).bytes.toString()).toBe("a");
    expect((await post("remove", { path: "/small" })).status).toBeGreaterThanOrEqual(400);
    expect((await post("remove", { path: "/small", recursive: true })).json).toEqual({});
    expect((await post("remove", { path: "/small" })).json.error?.code).toBe("file_not_found");
  });

  test("another owner's files, and files of no machine, are not there", async () => {
    for (const path of [at("/etc/passwd"), `${base()}/list?path=/`, `${base()}/tree?path=/etc`]) {
      const refused = await server().api.send({ path, key: server().otherKey });
      expect([path, refused.json.error?.code]).toEqual([path, "machine_not_found"]);
    }
  });
});

test("class 35: a watch tells changes, is alive while nothing happens, and asks for a new look after a flood", async () => {
  await server().run("mkdir -p /watched");
  const reply = await server().open(`${base()}/watch?path=/watched&recursive=true`);
  expect(reply.headers["content-type"]).toBe("application/x-ndjson");
  let text = "";
  const lines = () =>
    text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, string>);
  reply.on("data", (chunk) => {
    text += chunk;
  });
  await until(() => lines().some(({ event }) => event === "heartbeat"));
  await put("/watched/made", "x");
  await until(() => lines().some(({ path, to }) => path === "/watched/made" || to === "/watched/made"));
  await server().run("rm /watched/made");
  await until(() => lines().some(({ kind, path }) => kind === "removed" && path === "/watched/made"));
  reply.pause();
  const flood = "for n in range(20000): open(f'd{n % 60 + 1}/{n}', 'w')";
  await server().run(`cd /watched && mkdir $(seq -f d%g 60) && python3 -c "${flood}" && touch last`);
  reply.resume();
  const isMissing = () => lines().some(({ kind }) => kind === "rescan");
  const told = () => new Set(lines().map(({ path }) => path));
  await until(() => isMissing() || told().has("/watched/last"));
  // All of them, or a word that some are missing.
  if (!isMissing()) expect(told().size).toBeGreaterThanOrEqual(20_000 + 60);
  reply.destroy();
});

test("a range is what RFC 9110 says it is", () => {
  fc.assert(
    fc.property(fc.nat(1_000), fc.nat(1_200), fc.option(fc.nat(1_200), { nil: undefined }), (size, first, last) => {
      const header = `bytes=${first}-${last ?? ""}`;
      const bytes = Array.from({ length: size }, (_, at) => at).filter(
        (at) => at >= first && (last === undefined || at <= last),
      );
      if (last !== undefined && last < first) expect(readRange(header, size)).toBeNull();
      else if (bytes.length === 0) expect(() => readRange(header, size)).toThrow(`the file has ${size} bytes`);
      else expect(readRange(header, size)).toEqual({ offset: first, length: bytes.length });
      if (size > 0 && first > 0) {
        const length = Math.min(first, size);
        expect(readRange(`bytes=-${first}`, size)).toEqual({ offset: size - length, length });
      }
    }),
  );
});
