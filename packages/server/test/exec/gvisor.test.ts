import { once } from "node:events";
import { expect, test } from "vitest";
import { sha256, useMachines } from "../machineServer.ts";
import { ask, serveInside } from "../ports/support.ts";

// What the other files try with the namespace driver, in short: the calls are the same, the sandbox below them is another.
const server = useMachines({ driver: "gvisor" });
const files = () => `/v1/machines/${server().box}/files?path=`;

test("row 1, row 6, row 7: a timeout under gVisor ends the tree, and output is exact", async () => {
  const outcome = await server().exec({ command: "printf out; (sleep 7774 &) ; sleep 7774", timeout: 1 });
  expect(outcome).toMatchObject({ timed_out: true, stdout: "out", left: [] });
  expect(await server().run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).not.toContain("sleep 7774");
  const size = 2 ** 20;
  const zeros = await server().exec({ command: `head -c ${size} /dev/zero; exit 3` });
  expect([zeros.exit_code, zeros.stdout]).toEqual([3, "\0".repeat(size)]);
});

test("row 14: an attachment under gVisor has its terminal and its input", async () => {
  const socket = server().socket(`/v1/machines/${server().box}/exec/attach`);
  let heard = "";
  socket.on("message", (data: Buffer) => {
    if (data[0] === 1) heard += data.subarray(1);
  });
  await once(socket, "open");
  const start = { start: { command: 'stty size; read -r line; echo "<$line>"', tty: { rows: 7, columns: 70 } } };
  socket.send(Buffer.concat([Buffer.of(3), Buffer.from(JSON.stringify(start))]));
  while (!heard.includes("7 70")) await once(socket, "message");
  socket.send(Buffer.from("\0typed\n"));
  expect((await once(socket, "close"))[0]).toBe(1000);
  expect(heard).toContain("<typed>\r\n");
});

test("row 23, row 25: files under gVisor go in and out whole", async () => {
  const body = Buffer.alloc(20 * 2 ** 20 + 3, "any bytes ");
  const put = await server().api.send({
    method: "PUT",
    path: `${files()}/dir/file`,
    body,
    headers: { "content-type": "application/octet-stream" },
  });
  expect(put.json).toEqual({ bytes: body.length, sha256: sha256(body) });
  const got = await server().api.send({ path: `${files()}/dir/file`, headers: { range: "bytes=1000-" } });
  expect(got.bytes.equals(body.subarray(1000))).toBe(true);
});

test("row 26: a program under gVisor answers on its port, WebSockets too", async () => {
  await serveInside(server(), 8000);
  const got = await ask(server(), { method: "PUT", path: "/a?b", body: "body" });
  expect([got.status, got.told.method, got.told.path, got.told.sha256]).toEqual([200, "PUT", "/a?b", sha256("body")]);
  const socket = server().socket("/websocket", { headers: { host: `8000-box.localhost:${server().api.port}` } });
  await once(socket, "message");
  socket.send("hello");
  expect(String((await once(socket, "message"))[0])).toBe("hello");
  socket.close();
  await once(socket, "close");
  expect((await ask(server(), { port: 8001 })).code).toBe("port_refused");
});
