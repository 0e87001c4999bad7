import { once } from "node:events";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { matchPortHost, matchPortPath } from "../../src/ports/address.ts";
import { takeLinkFromCookie, takeLinkFromQuery } from "../../src/ports/links.ts";
import { useMachines } from "../machineServer.ts";
import { ask, headerOf, serveInside } from "./support.ts";

const server = useMachines();
beforeAll(async () => {
  await serveInside(server(), 8000);
  await serveInside(server(), 8001);
});
const ports = () => `/v1/machines/${server().box}/ports`;
const idHost = (port = 8000) => `${port}-${server().box}.localhost`;

async function link(port = 8000, request: object = {}): Promise<URL> {
  const made = await server().api.post(`${ports()}/${port}/link`, request);
  expect(made.status).toBe(200);
  return new URL(String(made.json.url));
}

describe("who may reach a port", () => {
  test("class 47: nobody without a key or a link, and nobody learns what there is", async () => {
    for (const machine of [server().box, "m00000000000000000000"]) {
      for (const form of [{}, { host: `8000-${machine}.localhost` }]) {
        const got = await ask(server(), { ...form, machine, key: null });
        expect([got.status, got.code]).toEqual([401, "unauthorized"]);
      }
    }
    const other = await ask(server(), { key: server().otherKey });
    expect([other.status, other.code]).toEqual([404, "machine_not_found"]);
    const byName = await ask(server(), { host: "8000-box.localhost", key: server().otherKey });
    expect([byName.status, byName.code]).toEqual([404, "machine_not_found"]);
    const revoked = await ask(server(), { key: `sp_${"x".repeat(43)}` });
    expect(revoked.status).toBe(401);
  });

  test("the same name is each owner's own machine", async () => {
    const { api, otherKey } = server();
    const body = JSON.stringify({ name: "box", driver: "namespace", isolated: true });
    const made = await api.send({ method: "POST", path: "/v1/machines", body, key: otherKey });
    const theirs = String(made.json.id);
    const got = await ask(server(), { host: "8000-box.localhost", key: otherKey });
    expect([got.status, got.code]).toEqual([502, "port_refused"]);
    expect((await ask(server(), { host: "8000-box.localhost" })).status).toBe(200);
    await api.send({ method: "DELETE", path: `/v1/machines/${theirs}`, key: otherKey });
  });

  test("a public port is anybody's, until it is not; the others stay as they are", async () => {
    const put = (isPublic: boolean) =>
      server().api.send({ method: "PUT", path: `${ports()}/8000`, body: JSON.stringify({ public: isPublic }) });
    expect((await put(true)).json).toMatchObject({ port: 8000, public: true });
    expect((await ask(server(), { key: null })).status).toBe(200);
    expect((await ask(server(), { key: null, host: "8000-box.localhost" })).status).toBe(200);
    expect((await ask(server(), { key: null, port: 8001 })).status).toBe(401);
    // Another's Authorization is the program's affair; ours never is.
    const theirs = await ask(server(), { key: null, headers: { authorization: "Basic dXNlcjpwYXNz" } });
    expect(headerOf(theirs.told, "authorization")).toEqual(["Basic dXNlcjpwYXNz"]);
    const withKey = await ask(server(), { key: server().otherKey });
    expect([withKey.status, headerOf(withKey.told, "authorization")]).toEqual([200, []]);
    const gone = await ask(server(), { key: null, headers: { authorization: `Bearer sp_${"x".repeat(43)}` } });
    expect(headerOf(gone.told, "authorization")).toEqual([]);
    expect((await put(false)).json).toMatchObject({ public: false });
    expect((await ask(server(), { key: null })).status).toBe(401);
  });

  test("the list has what listens, with both addresses", async () => {
    const { json } = await server().api.send({ path: ports() });
    const { port } = server().api;
    expect((json.ports as object[])[0]).toEqual({
      port: 8000,
      pid: expect.any(Number),
      public: false,
      url: `http://8000-box.localhost:${port}/`,
      path_url: `http://127.0.0.1:${port}/v1/machines/${server().box}/ports/8000/`,
    });
  });
});

describe("a signed link", () => {
  test("its first use sets a cookie and redirects to the clean address, which the cookie opens", async () => {
    const url = await link();
    expect(url.host).toBe(`${idHost()}:${server().api.port}`);
    const token = url.searchParams.get("sandpool_link") as string;
    const first = await ask(server(), {
      key: null,
      host: idHost(),
      path: `//evil.example/a?b=1&sandpool_link=${token}&c=2`,
    });
    expect(first.status).toBe(303);
    expect(first.headers.location).toBe(`http://${url.host}//evil.example/a?b=1&c=2`);
    expect(first.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^sandpool_link=[^;]+; Path=\/; Max-Age=(3599|3600|3601); HttpOnly; SameSite=Lax$/),
    ]);
    const cookie = `a=1; sandpool_link=${token}; b=2`;
    const next = await ask(server(), { key: null, host: idHost(), path: "/x", headers: { cookie } });
    expect([next.status, next.told.path, headerOf(next.told, "cookie")]).toEqual([200, "/x", ["a=1; b=2"]]);
    const own = { cookie, origin: `http://${url.host}` };
    expect((await ask(server(), { key: null, host: idHost(), headers: own })).status).toBe(200);
    for (const origin of ["https://evil.example", "null", `http://8001-box.localhost:${server().api.port}`]) {
      const headers = { cookie, origin };
      expect((await ask(server(), { key: null, host: idHost(), headers })).status).toBe(401);
    }
  });

  test("it opens one port of one machine, in the path form by its query only, and never the API", async () => {
    const token = (await link()).searchParams.get("sandpool_link") as string;
    const byPath = await ask(server(), { key: null, path: `/x?sandpool_link=${token}` });
    expect([byPath.status, byPath.told.path]).toEqual([200, "/x"]);
    const cookie = { cookie: `sandpool_link=${token}` };
    expect((await ask(server(), { key: null, headers: cookie })).status).toBe(401);
    expect((await ask(server(), { key: null, port: 8001, path: `/?sandpool_link=${token}` })).status).toBe(403);
    const machine = await server().newMachine();
    expect((await ask(server(), { key: null, machine, path: `/?sandpool_link=${token}` })).status).toBe(403);
    expect(
      (await server().api.send({ path: `/v1/machines?sandpool_link=${token}`, key: null, headers: cookie })).status,
    ).toBe(401);
    const socket = server().socket(`/websocket?sandpool_link=${token}`, {
      key: null,
      headers: { host: `${idHost()}:${server().api.port}` },
    });
    await once(socket, "message");
    socket.terminate();
  });

  test("one that is changed, over or revoked opens nothing", async () => {
    const token = (await link()).searchParams.get("sandpool_link") as string;
    const [end, mac] = token.split(".") as [string, string];
    const flipped = `${mac.slice(0, -2)}${mac.at(-2) === "A" ? "B" : "A"}${mac.at(-1)}`;
    for (const bad of [
      "",
      "x",
      `${Number(end) + 1}.${mac}`,
      `${end}.${flipped}`,
      `0${end}.${mac}`,
      `${end}.`,
      `${token}=`,
    ]) {
      const got = await ask(server(), { key: null, path: `/?sandpool_link=${bad}` });
      expect([bad, got.status]).toEqual([bad, 403]);
    }
    const short = (await link(8000, { expires: 0.001 })).searchParams.get("sandpool_link") as string;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, Number(short.split(".")[0]) * 1000 - Date.now())));
    expect((await ask(server(), { key: null, path: `/?sandpool_link=${short}` })).status).toBe(403);
    expect((await server().api.post(`${ports()}/8000/link`, { expires: 86_401 })).status).toBe(400);
    const revoked = await server().api.send({ method: "DELETE", path: `${ports()}/8000/link` });
    expect(revoked.json).toEqual({ revoked: true });
    expect((await ask(server(), { key: null, path: `/?sandpool_link=${token}` })).status).toBe(403);
    const next = (await link()).searchParams.get("sandpool_link") as string;
    expect((await ask(server(), { key: null, path: `/?sandpool_link=${next}` })).status).toBe(200);
  });

  test("its token is in no line of the log", async () => {
    const token = (await link()).searchParams.get("sandpool_link") as string;
    await ask(server(), { key: null, path: `/?sandpool_link=${token}` });
    await ask(server(), { key: null, port: 8002, path: `/?sandpool_link=${token}` });
    await server().api.send({ path: `/v1/no-such-route?sandpool_link=${token}` });
    const log = server().api.logLines.join("");
    expect(log).toContain("machine.link");
    expect(log).not.toContain(token);
  });
});

describe("the browser's rules", () => {
  test("class 47: a Host of a machine's never reaches the API, a foreign one nothing", async () => {
    for (const path of ["/v1/machines", "/v1/health", "/openapi.json", "/metrics"]) {
      const got = await ask(server(), { host: idHost(), path });
      expect([path, got.told.path]).toEqual([path, path]);
    }
    const { port } = server().api;
    for (const host of [
      `8000-box.localhost:${port + 1}`,
      `8000-box.localhost`,
      `8000-box.localhost.evil.example:${port}`,
      `x.8000-box.localhost:${port}`,
      `08000-box.localhost:${port}`,
      `65536-box.localhost:${port}`,
      `8000.localhost:${port}`,
      `8000-box.localhost.:${port}`,
      `box.localhost:${port}`,
    ]) {
      const got = await server().api.send({ path: "/v1/machines", headers: { host } });
      expect([host, got.status, got.json.error?.code]).toEqual([host, 403, "host_not_allowed"]);
    }
    const foreign = await ask(server(), { headers: { origin: "https://evil.example" } });
    expect([foreign.status, foreign.code]).toEqual([403, "host_not_allowed"]);
  });

  test("in the path form a page has no origin of this server's, and leaves nothing in the browser", async () => {
    const got = await ask(server(), { path: "/cookies" });
    expect(got.headers["content-security-policy"]).toBe("sandbox");
    expect(got.headers["clear-site-data"]).toBeUndefined();
    expect(got.headers["service-worker-allowed"]).toBeUndefined();
    const prefix = `${ports()}/8000`;
    expect(got.headers["set-cookie"]).toEqual([`a=1; Path=${prefix}/app`, `b=2; HttpOnly; Path=${prefix}/`]);
    const own = await ask(server(), { host: idHost(), path: "/cookies" });
    expect(own.headers["content-security-policy"]).toBeUndefined();
    expect(own.headers["set-cookie"]).toEqual(["a=1; Path=/app; Domain=localhost", "b=2; HttpOnly"]);
  });

  test("a program cannot send a client that follows it to a call of the API", async () => {
    const prefix = `${ports()}/8000`;
    const here = `127.0.0.1:${server().api.port}`;
    for (const [to, expected] of [
      ["/v1/keys", `${prefix}/v1/keys`],
      [`http://${here}/v1/keys?a=1`, `${prefix}/v1/keys?a=1`],
      [`//${here}/v1/keys`, `${prefix}/v1/keys`],
      [`/\\${here}/v1/keys`, `${prefix}/v1/keys`],
      [`http://user@${here}/v1/keys`, `${prefix}/v1/keys`],
      ["../../../../keys", `${prefix}/v1/keys`],
      ["next?b=2#c", `${prefix}/next?b=2#c`],
      [`${prefix}/next`, `${prefix}/next`],
      [`${prefix}/../../../keys`, `${prefix}/v1/machines/keys`],
      ["https://elsewhere.example/x", "https://elsewhere.example/x"],
    ] as const) {
      const got = await ask(server(), { path: "/redirect", headers: { "x-to": to } });
      expect([to, got.headers.location]).toEqual([to, expected]);
    }
    const own = await ask(server(), { host: idHost(), path: "/redirect", headers: { "x-to": "/next" } });
    expect(own.headers.location).toBe("/next");
  });

  test("a service worker stands only where no other machine ever is", async () => {
    const headers = { "service-worker": "script" };
    expect((await ask(server(), { headers })).status).toBe(403);
    expect((await ask(server(), { headers, host: "8000-box.localhost" })).status).toBe(403);
    expect((await ask(server(), { headers, host: idHost() })).status).toBe(200);
  });

  test("class 47: the agent answers on no port", async () => {
    const { json } = await server().api.send({ path: ports() });
    expect((json.ports as { port: number }[]).map(({ port }) => port)).toEqual([8000, 8001]);
  });
});

describe("addresses", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,39}$/);
  const port = fc.integer({ min: 1, max: 65_535 });

  test("every name and port is found in both forms, and nothing of the target is changed", () => {
    const target = fc.string().map((text) => `/${text}`);
    fc.assert(
      fc.property(name, port, target, (machine, inside, rest) => {
        const listening = { scheme: "http", port: 7070 } as const;
        expect(matchPortHost(`${inside}-${machine}.LOCALHOST:7070`, listening)).toEqual({ machine, port: inside });
        expect(matchPortHost(`${inside}-${machine}.localhost`, { scheme: "http", port: 80 })).toEqual({
          machine,
          port: inside,
        });
        const prefix = `/v1/machines/${machine}/ports/${inside}`;
        const found = { form: "path", machine, port: inside, target: rest, prefix };
        expect(matchPortPath("GET", prefix + rest)).toEqual(found);
        expect(matchPortPath("POST", `${prefix}/link`)).toBeNull();
      }),
    );
  });

  test("our member is taken out of any query and any cookie, and nothing else", () => {
    const member = fc.stringMatching(/^[a-z=%+]{0,8}$/);
    fc.assert(
      fc.property(fc.array(member), fc.array(member), (before, after) => {
        const others = [...before, ...after].join("&");
        const query = [...before, "sandpool_link=t.1", ...after].join("&");
        const rest = before.length + after.length === 0 ? "" : `?${others}`;
        expect(takeLinkFromQuery(`/a?${query}`)).toEqual({ target: `/a${rest}`, token: "t.1" });
        const cookie = takeLinkFromCookie([...before, "sandpool_link=t.1", ...after].join("; "));
        expect([cookie.token, cookie.cookie ?? ""]).toEqual(["t.1", [...before, ...after].join("; ").trim()]);
      }),
    );
  });
});
