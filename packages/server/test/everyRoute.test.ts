import { createHash } from "node:crypto";
import { makeExecId } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "./startTestServer.ts";

interface Route {
  method: string;
  /** With parameters replaced by objects of the first owner. */
  path: string;
  template: string;
  hasBody: boolean;
}

const ARCHIVE = Buffer.from("an archive");
const SHA256 = createHash("sha256").update(ARCHIVE).digest("hex");

interface Setup {
  server: TestServer;
  routes: Route[];
  otherKey: string;
}

/** Every route of the OpenAPI document, so that a new route is tested without a change here. */
async function setUp(): Promise<Setup> {
  const server = await startTestServer();
  const poolId = await server.createPool();
  await server.send({
    method: "PUT",
    path: `/v1/archives/${SHA256}`,
    body: ARCHIVE,
    headers: { "content-type": "application/zstd" },
  });
  const machine = String((await server.post("/v1/machines", { name: "box" })).json.id);
  const keyId = String((await server.post("/v1/keys", { name: "second" })).json.id);
  const otherKey = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
  const document = (await server.send({ path: "/openapi.json" })).json as {
    paths: Record<string, Record<string, { requestBody?: unknown }>>;
  };
  const routes = Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, { requestBody }]) => ({
      method: method.toUpperCase(),
      template,
      path: template
        .replace("{sha256}", SHA256)
        .replace("{id}", template.startsWith("/v1/keys") ? keyId : poolId)
        .replace("{machine}", machine)
        .replace("{exec}", makeExecId())
        .replace("{port}", "8000")
        .replace("{image}", "host"),
      hasBody: requestBody !== undefined || method === "put",
    })),
  );
  return { server, routes, otherKey };
}

/** Runs the check on every route and reports all that broke the rule, not only the first. */
async function broken(routes: readonly Route[], keepsRule: (route: Route) => Promise<boolean>): Promise<string[]> {
  const faults: string[] = [];
  for (const route of routes) if (!(await keepsRule(route))) faults.push(`${route.method} ${route.template}`);
  return faults;
}

function isFile({ template }: Route): boolean {
  return template.startsWith("/v1/machines/{machine}/files");
}

function bodyFor({ method, template }: Route, body: string | undefined): string | undefined {
  if (method === "PATCH") return "{}";
  return method === "POST" || template.endsWith("/states") ? body : undefined;
}

function bodyOf(route: Route): { body?: string } {
  return route.method === "POST" || route.method === "PUT" ? { body: "{}" } : {};
}

describe("on every route", () => {
  test("the document lists the routes of version 1", async () => {
    const { routes } = await setUp();
    const listed = new Set(routes.map((route) => `${route.method} ${route.template}`));
    for (const expected of [
      "GET /v1/health",
      "GET /v1/capabilities",
      "HEAD /v1/archives/{sha256}",
      "PUT /v1/archives/{sha256}",
      "POST /v1/pools",
      "GET /v1/pools",
      "GET /v1/pools/{id}",
      "DELETE /v1/pools/{id}",
      "POST /v1/pools/{id}/reset",
      "POST /v1/pools/{id}/step",
      "POST /v1/pools/{id}/call",
      "POST /v1/pools/{id}/fork",
      "POST /v1/pools/{id}/states",
      "POST /v1/pools/{id}/restore",
      "GET /v1/pools/{id}/states",
      "DELETE /v1/pools/{id}/states",
      "GET /v1/pools/{id}/observations",
      "GET /v1/pools/{id}/stream",
      "GET /v1/pools/{id}/logs",
      "POST /v1/pools/{id}/lease",
      "POST /v1/machines",
      "GET /v1/machines",
      "GET /v1/machines/{machine}",
      "PATCH /v1/machines/{machine}",
      "DELETE /v1/machines/{machine}",
      "POST /v1/machines/{machine}/stop",
      "POST /v1/machines/{machine}/start",
      "POST /v1/machines/{machine}/lease",
      "GET /v1/machines/{machine}/logs",
      "POST /v1/machines/{machine}/exec",
      "GET /v1/machines/{machine}/exec",
      "GET /v1/machines/{machine}/exec/{exec}",
      "GET /v1/machines/{machine}/files",
      "PUT /v1/machines/{machine}/files",
      "GET /v1/machines/{machine}/ports",
      "GET /v1/images",
      "GET /v1/storage",
      "POST /v1/storage/gc",
      "GET /v1/keys",
      "POST /v1/keys",
      "DELETE /v1/keys/{id}",
      "GET /metrics",
      "GET /openapi.json",
    ])
      expect(listed).toContain(expected);
  });

  test("no key and a wrong key answer 401, but for health", async () => {
    const { server, routes } = await setUp();
    const others = routes.filter((route) => route.template !== "/v1/health");
    const wrongKeys = [null, "", "sp_wrong", `${server.running.key}x`, server.running.key.slice(0, -1)];
    for (const key of wrongKeys) {
      const faults = await broken(
        others,
        async (route) => (await server.send({ ...route, ...bodyOf(route), key })).status === 401,
      );
      expect(faults).toEqual([]);
    }
    expect((await server.send({ path: "/v1/health", key: null })).json).toEqual({ status: "ok", version: "0.1.0" });
    expect((await server.send({ path: "/v1/no-such-route", key: null })).status).toBe(401);
  });

  test("another owner's objects answer 404", async () => {
    const { server, routes, otherKey } = await setUp();
    const valid: Record<string, string> = {
      step: '{"seq":1,"actions":[]}',
      reset: '{"seq":1}',
      call: '{"seq":1,"name":"render"}',
      fork: '{"seq":1,"pairs":[]}',
      restore: '{"seq":1,"pairs":[]}',
      lease: "{}",
      stop: "{}",
      start: "{}",
      link: "{}",
      exec: '{"command":"true"}',
      signal: '{"signal":"TERM"}',
      make: '{"path":"/x"}',
      remove: '{"path":"/x"}',
      move: '{"from":"/x","to":"/y"}',
    };
    // Images belong to the host.
    const owned = routes.filter(
      (route) => route.template.includes("{") && route.method !== "PUT" && !route.template.startsWith("/v1/images"),
    );
    expect(owned.length).toBeGreaterThan(8);
    const faults = await broken(owned, async (route) => {
      const name = route.template.split("/").at(-1) ?? "";
      const states: Record<string, string> = { POST: '{"seq":1}', DELETE: '{"states":null}' };
      const body = bodyFor(route, name === "states" ? states[route.method] : valid[name]);
      const query = route.template.endsWith("/pools/{id}/logs") ? "?row=0" : isFile(route) ? "?path=/x" : "";
      const reply = await server.send({ ...route, path: route.path + query, key: otherKey, ...(body ? { body } : {}) });
      return reply.status === 404;
    });
    expect(faults).toEqual([]);
    for (const path of ["/v1/pools", "/v1/keys", "/v1/machines"]) {
      const reply = await server.send({ path, key: otherKey });
      expect(JSON.stringify(reply.json)).not.toContain('"local"');
      expect(reply.json.pools ?? reply.json.machines ?? []).toEqual([]);
    }
  });

  test("a foreign Host and a foreign Origin answer 403, with a valid key too", async () => {
    const { server, routes } = await setUp();
    const { port } = server;
    for (const headers of [
      { host: `evil.example:${port}` },
      { host: "127.0.0.1" },
      { host: `127.0.0.1:${port}.evil.example` },
      { host: `localhost.:${port}` },
      { host: `127.0.0.1:${port + 1}` },
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: `https://localhost:${port}` },
      { origin: `http://localhost:${port + 1}` },
    ]) {
      const faults = await broken(routes, async (route) => {
        const reply = await server.send({ ...route, ...bodyOf(route), headers: headers as Record<string, string> });
        return reply.status === 403 && (route.method === "HEAD" || reply.json.error?.code === "host_not_allowed");
      });
      expect(faults).toEqual([]);
    }
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, `LOCALHOST:${port}`]) {
      expect((await server.send({ path: "/v1/pools", headers: { host, origin: `http://${host}` } })).status).toBe(200);
    }
  });

  test("a body over the limit answers 413", async () => {
    const server = await startTestServer({
      limits: { smallBodyBytes: 100, createBodyBytes: 200, batchBodyBytes: 300, stepBodyBytes: 400, archiveBytes: 500 },
    });
    const id = await server.createPool();
    const limits: [string, string, number][] = [
      ["POST", "/v1/keys", 100],
      ["POST", "/v1/pools", 200],
      ["POST", `/v1/pools/${id}/reset`, 300],
      ["POST", `/v1/pools/${id}/call`, 300],
      ["POST", `/v1/pools/${id}/fork`, 300],
      ["POST", `/v1/pools/${id}/states`, 300],
      ["POST", `/v1/pools/${id}/restore`, 300],
      ["DELETE", `/v1/pools/${id}/states`, 300],
      ["POST", `/v1/pools/${id}/step`, 400],
      ["PUT", `/v1/archives/${SHA256}`, 500],
      ["POST", `/v1/pools/${id}/lease`, 100],
    ];
    for (const [method, path, limit] of limits) {
      const headers = { "content-type": method === "PUT" ? "application/zstd" : "application/json" };
      const over = await server.send({ method, path, headers, body: " ".repeat(limit + 1) });
      expect([path, over.status]).toEqual([path, 413]);
      const chunked = await server.send({
        method,
        path,
        headers: { ...headers, "transfer-encoding": "chunked" },
        body: " ".repeat(limit + 1),
      });
      expect([path, chunked.status]).toEqual([path, 413]);
      const exact = await server.send({ method, path, headers, body: " ".repeat(limit) });
      expect([path, exact.status === 413]).toEqual([path, false]);
    }
  });

  test("an odd content type or encoding answers 415, however close it comes", async () => {
    const { server, routes } = await setUp();
    // A file, a tree or an image is whatever bytes come.
    const raw = (route: Route) => route.method === "PUT" && (isFile(route) || route.template === "/v1/images");
    const withBody = routes.filter((route) => ["POST", "PUT"].includes(route.method) && !raw(route));
    const odd = [
      "text/plain",
      "application/json\t; charset=utf-8",
      "application/json; charset=utf-16",
      "application/jsonx",
      "application/json,text/plain",
      "application/json; a=b",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/zstd2",
    ];
    for (const contentType of odd) {
      const faults = await broken(withBody, async (route) => {
        const reply = await server.send({ ...route, headers: { "content-type": contentType }, body: "{}" });
        return reply.status === 415 && reply.json.error?.details.received === contentType;
      });
      expect([contentType, faults]).toEqual([contentType, []]);
    }
    const json = withBody.filter((route) => route.method === "POST");
    const faults = await broken(json, async (route) => {
      return (await server.send({ ...route, headers: { "content-encoding": "gzip" }, body: "{}" })).status === 415;
    });
    expect(faults).toEqual([]);
  });

  test("a body that is no JSON, too deep or not UTF-8 answers 400", async () => {
    const { server, routes } = await setUp();
    const json = routes.filter((route) => route.method === "POST");
    for (const body of [
      "{",
      "nul",
      `{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}}`,
      Buffer.from([0x22, 0xff, 0x22]),
      "[1]",
      '"text"',
      "{'a':1}",
    ]) {
      const faults = await broken(json, async (route) => (await server.send({ ...route, body })).status === 400);
      expect(
        faults.filter((route) => !(/\/(lease|stop|start)$/.test(route) && (body === "[1]" || body === '"text"'))),
      ).toEqual([]);
    }
  });

  test("an address that no route can take is refused in the form of every refusal", async () => {
    const { server, routes } = await setUp();
    const withParameter = routes.filter((route) => route.template.includes("{") && route.method !== "HEAD");
    for (const parameter of ["%zz", "%", "a%ff", "a".repeat(300), "a/b", "..", "%00"]) {
      const faults = await broken(withParameter, async (route) => {
        const path = route.template.replace(/\{\w+\}/, parameter);
        const { status, json } = await server.send({ ...route, ...bodyOf(route), path });
        return status >= 400 && status < 500 && json.error?.code !== undefined && json.error.message !== "";
      });
      expect([parameter, faults]).toEqual([parameter, []]);
    }
  });

  test("a method the route does not have answers 405, an unknown route 404", async () => {
    const { server } = await setUp();
    expect((await server.send({ method: "PUT", path: "/v1/pools" })).json.error?.code).toBe("method_not_allowed");
    expect((await server.send({ method: "GET", path: "/v1/pools/x/step" })).json.error?.code).toBe(
      "method_not_allowed",
    );
    expect((await server.send({ path: "/v1/nothing" })).json.error?.code).toBe("not_found");
    expect((await server.send({ path: "http://evil.example/v1/pools" })).status).toBe(403);
    expect(
      (await server.send({ method: "OPTIONS", path: "/v1/pools" })).headers["access-control-allow-origin"],
    ).toBeUndefined();
  });
});
