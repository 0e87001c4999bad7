import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { createConnection } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { sha256, useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";
import { ask, headerOf, serveInside } from "./support.ts";

const server = useMachines();
beforeAll(() => serveInside(server(), 8000));
const byHost = { host: "8000-box.localhost" };

describe("row 26: what is asked reaches the program as it was asked", () => {
  test("any method, path, query and body, in both forms", async () => {
    for (const form of [{}, byHost]) {
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "PURGE"]) {
        const path = "/a%2Fb/../c;d=1//e?q=%00&r=%F0&q=+x&&";
        const body = method === "GET" || method === "OPTIONS" ? undefined : Buffer.from(`${method} \xff`, "latin1");
        const got = await ask(server(), { ...form, method, path, ...(body === undefined ? {} : { body }) });
        expect([got.status, got.message, got.told.method, got.told.path]).toEqual([200, "Just So", method, path]);
        expect([got.told.length, got.told.sha256]).toEqual([body?.length ?? 0, sha256(body ?? "")]);
      }
    }
  });

  test("Host is as it was asked, who forwarded is told, our key and what is one connection's are not", async () => {
    const headers = {
      connection: "close, x-mine",
      "x-mine": "for the proxy",
      "x-forwarded-for": "1.2.3.4",
      forwarded: "for=1.2.3.4",
      "proxy-authorization": "secret",
      te: "trailers",
      "x-kept": ["one", "two"],
    };
    const own = `127.0.0.1:${server().api.port}`;
    const { told } = await ask(server(), { headers });
    expect(headerOf(told, "host")).toEqual([own]);
    expect(headerOf(told, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    expect(headerOf(told, "x-forwarded-host")).toEqual([own]);
    expect(headerOf(told, "x-forwarded-prefix")).toEqual([`/v1/machines/${server().box}/ports/8000`]);
    expect(headerOf(told, "x-kept")).toEqual(["one", "two"]);
    expect(headerOf(told, "te")).toEqual(["trailers"]);
    for (const name of ["authorization", "x-mine", "forwarded", "proxy-authorization", "cookie"]) {
      expect([name, headerOf(told, name)]).toEqual([name, []]);
    }
    const other = await ask(server(), byHost);
    expect(headerOf(other.told, "host")).toEqual([`8000-box.localhost:${server().api.port}`]);
    expect(headerOf(other.told, "x-forwarded-prefix")).toEqual([]);
  });

  test("HEAD, headers that come twice, chunks and trailers both ways", async () => {
    const head = await ask(server(), { method: "HEAD" });
    expect([head.status, head.body.length, Number(head.headers["content-length"]) > 0]).toEqual([200, 0, true]);
    const echoed = await ask(server(), {
      method: "POST",
      headers: { "transfer-encoding": "chunked", trailer: "x-after" },
      body: "chunked",
      trailers: { "x-after": "the body" },
    });
    expect([echoed.told.length, echoed.told.trailers]).toEqual([7, "x-after: the body\r\n"]);
    expect(echoed.rawHeaders.filter((text) => text === "one" || text === "two")).toEqual(["one", "two"]);
    const chunks = await ask(server(), { path: "/chunks" });
    expect([chunks.body.toString(), chunks.trailers["x-sum"]]).toEqual(["abcdefg", "7"]);
    // A body on a method that seldom has one, and none on one that often has.
    const odd = await ask(server(), { method: "DELETE", headers: { "transfer-encoding": "chunked" }, body: "x" });
    expect(odd.told.length).toBe(1);
    expect((await ask(server(), { method: "POST" })).told.length).toBe(0);
  });

  test("events arrive when they are written, not when the reply ends", async () => {
    const reply = await server().open(`/v1/machines/${server().box}/ports/8000/events`);
    const ended = once(reply, "end");
    let heard = "";
    reply.on("data", (chunk) => {
      heard += chunk;
    });
    await until(() => heard !== "");
    expect(heard).toBe("data: first\n\n");
    await ask(server(), { path: "/more" });
    await until(() => heard.includes("second"));
    expect(heard).toBe("data: first\n\ndata: second\n\n");
    await ended;
  });

  test("interim replies: 103 comes first, and 100 only where the program wants the body", async () => {
    const path = `/v1/machines/${server().box}/ports/8000`;
    const headers = { authorization: `Bearer ${server().api.running.key}`, expect: "100-continue" };
    const start = (method: string, name: string) =>
      httpRequest({ host: "127.0.0.1", port: server().api.port, method, path: path + name, headers, agent: false });
    const early = start("GET", "/early");
    const interim: number[] = [];
    early.on("information", ({ statusCode }) => interim.push(statusCode));
    early.end();
    await once(early, "response");
    expect(interim).toContain(103);
    const wanted = start("POST", "/");
    wanted.flushHeaders();
    await once(wanted, "continue");
    wanted.end("body");
    const [echoed] = await once(wanted, "response");
    expect(echoed.statusCode).toBe(200);
    const refused = start("POST", "/refuse");
    let continued = false;
    refused.on("continue", () => {
      continued = true;
    });
    refused.on("error", () => {});
    refused.flushHeaders();
    const [reply] = await once(refused, "response");
    expect([reply.statusCode, continued]).toEqual([417, false]);
    refused.destroy();
  });

  test("a WebSocket, with its protocol, in both forms; a key of ours stays behind, another one goes on", async () => {
    for (const [path, headers] of [
      [`/v1/machines/${server().box}/ports/8000/websocket`, {}],
      ["/websocket", { host: `8000-box.localhost:${server().api.port}` }],
    ] as const) {
      const socket = server().socket(path, { headers, protocol: "mine" });
      const messages: string[] = [];
      socket.on("message", (data) => messages.push(String(data)));
      await once(socket, "open");
      expect(socket.protocol).toBe("mine");
      socket.send("hello");
      while (messages.length < 2) await once(socket, "message");
      expect(JSON.parse(messages[0] as string)[0]).toBe(null);
      expect(messages[1]).toBe("hello");
      socket.close();
      expect((await once(socket, "close"))[0]).toBe(1000);
    }
    await server().api.send({
      method: "PUT",
      path: `/v1/machines/${server().box}/ports/8000`,
      body: '{"public":true}',
    });
    const theirs = server().socket(`/v1/machines/${server().box}/ports/8000/websocket`, { key: "the program's own" });
    const [first] = await once(theirs, "message");
    expect(JSON.parse(String(first))[0]).toBe("Bearer the program's own");
    theirs.terminate();
    await server().api.send({
      method: "PUT",
      path: `/v1/machines/${server().box}/ports/8000`,
      body: '{"public":false}',
    });
  });

  test("any other upgrade, with what follows its head at once, and each side's own end", async () => {
    const socket = createConnection(server().api.port, "127.0.0.1");
    socket.setNoDelay(true);
    let heard = "";
    socket.on("data", (chunk) => {
      heard += chunk;
    });
    socket.write(
      `GET /other HTTP/1.1\r\nHost: 8000-box.localhost:${server().api.port}\r\nConnection: Upgrade\r\nUpgrade: upside-down\r\n` +
        `Authorization: Bearer ${server().api.running.key}\r\n\r\nabc\n`,
    );
    while (!heard.includes("cba")) await once(socket, "data");
    socket.end("xyz\n");
    await once(socket, "end");
    expect(heard).toMatch(/^HTTP\/1.1 101 Yes\r\n/);
    expect(heard.split("\r\n\r\n")[1]).toBe("hello\ncba\nzyx\nbye\n");
  });

  test("an upgrade that the program does not know is answered as it answers", async () => {
    const { told, status } = await ask(server(), { headers: { connection: "Upgrade", upgrade: "h2c" } });
    expect([status, headerOf(told, "upgrade")]).toEqual([200, ["h2c"]]);
  });

  test("a large reply and a large body cost the server no memory", async () => {
    const size = 256 * 2 ** 20;
    const reply = await server().open(`/v1/machines/${server().box}/ports/8000/zeros?${size}`);
    const before = process.memoryUsage.rss();
    let [received, peak] = [0, before];
    for await (const chunk of reply) {
      received += (chunk as Buffer).length;
      peak = Math.max(peak, process.memoryUsage.rss());
    }
    expect(received).toBe(size);
    expect(peak - before).toBeLessThan(160 * 2 ** 20);
    const body = Buffer.alloc(24 * 2 ** 20, "body!");
    const { told } = await ask(server(), { method: "PUT", body });
    expect([told.length, told.sha256]).toEqual([body.length, sha256(body)]);
  });
});

describe("what goes wrong is said", () => {
  test("nothing listens: 502 that names the port", async () => {
    const got = await ask(server(), { port: 8001 });
    expect([got.status, got.code]).toEqual([502, "port_refused"]);
    expect(got.body.toString()).toContain("nothing listens on port 8001 of box");
  });

  test("no HTTP, and two lengths in one reply: 502; a reply that breaks off breaks off", async () => {
    for (const path of ["/noise", "/smuggle"]) {
      const got = await ask(server(), { path });
      expect([path, got.status, got.code]).toEqual([path, 502, "port_refused"]);
    }
    await expect(ask(server(), { path: "/broken" })).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  test("class 47: two lengths, a length beside chunks, a bare line feed: none reaches the program as two requests", async () => {
    const own = `Host: 8000-box.localhost:${server().api.port}\r\nAuthorization: Bearer ${server().api.running.key}\r\n`;
    for (const lengths of [
      "Content-Length: 5\r\nContent-Length: 6\r\n",
      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Content-Length: +5\r\n",
      "X-A: b\nContent-Length: 5\r\n",
      "Content-Length : 5\r\n",
    ]) {
      const socket = createConnection(server().api.port, "127.0.0.1");
      let heard = "";
      socket.on("data", (chunk) => {
        heard += chunk;
      });
      socket.on("error", () => {});
      socket.write(`POST / HTTP/1.1\r\n${own}${lengths}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n${own}\r\n`);
      await once(socket, "close");
      expect([lengths, heard.slice(0, 12)]).toEqual([lengths, "HTTP/1.1 400"]);
    }
  });
});

test("row 28: three hundred connections at once are all answered", async () => {
  const got = await Promise.all(Array.from({ length: 300 }, () => ask(server(), { path: "/sleep" })));
  expect(got.every(({ status, body }) => status === 200 && body.toString() === "slept")).toBe(true);
});
