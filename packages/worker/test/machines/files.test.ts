import { createHash } from "node:crypto";
import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { extract, pack } from "tar-stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LiveMachine } from "../../src/machines/contract.ts";
import { machineLeftovers } from "../drivers/machines/support.ts";
import { bytesOf, createOn, execOf, LIMIT_MS, makeBench, numbered, run, shell, textOf } from "./support.ts";

const MIB = 2 ** 20;

for (const name of ["namespace", "gvisor"] as const) {
  const bench = makeBench(name);
  const [probe] = await bench.host.probe();
  const isMissing = probe?.available !== true;

  describe.skipIf(isMissing)(`files and ports of a live machine of ${name}`, { timeout: LIMIT_MS }, () => {
    let machine: LiveMachine;

    beforeAll(async () => {
      machine = await createOn(bench, { diskBytes: 3 * 2 ** 30, memoryBytes: 2 ** 31 });
    }, LIMIT_MS);
    afterAll(async () => {
      await bench.clear();
      await bench.host.close();
      expect(await machineLeftovers({ dataDir: bench.dataDir } as never)).toEqual([]);
      bench.remove();
    }, LIMIT_MS);

    test("rows 23 and 24: a file is there, whole, with its mode and owner, once the write says so", async () => {
      const sha256 = createHash("sha256").update("content").digest("hex");
      const options = { mode: 0o640, user: "nobody", size: 7 };
      expect(await machine.writeFile("/tmp/made/a", bytesOf("content"), options)).toEqual({ bytes: 7, sha256 });
      const look = ["/bin/sh", "-c", "cat /tmp/made/a; stat -c ' %a %U' /tmp/made/a"];
      expect((await run(machine, look, { user: "nobody" })).text).toBe("content 640 nobody\n");
      expect(await machine.statFile("/tmp/made/a", {})).toMatchObject({
        ...{ name: "a", path: "/tmp/made/a", kind: "file", size: 7, mode: 0o640, uid: 65534, target: null },
      });
    });

    test("a write of another length than it said, or whose source breaks, leaves what was there", async () => {
      await machine.writeFile("/root/kept", bytesOf("old"), {});
      const short = machine.writeFile("/root/kept", bytesOf("new"), { size: 4 });
      await expect(short).rejects.toMatchObject({ code: "file_invalid", message: expect.stringContaining("3 bytes") });
      const broken = new PassThrough();
      broken.write("new");
      const cut = machine.writeFile("/root/kept", broken, {});
      broken.destroy(new Error("the client went away"));
      await expect(cut).rejects.toThrow("the client went away");
      const scope = new AbortController();
      const stopped = machine.writeFile("/root/kept", new PassThrough(), { signal: scope.signal });
      scope.abort(new Error("stopped"));
      await expect(stopped).rejects.toThrow("stopped");
      expect(await shell(machine, "cat /root/kept; ls -a /root | grep -c part || true")).toBe("old0\n");
    });

    test("a refused write leaves its source to its owner, readable on", async () => {
      const source = new PassThrough();
      source.write("first");
      await expect(machine.writeFile("/proc/1/no/file", source, {})).rejects.toMatchObject({
        details: expect.objectContaining({ path: expect.any(String) }),
      });
      expect(source.destroyed).toBe(false);
      source.end("more");
      expect(await textOf(source)).toContain("more");
    });

    test("each error of the agent comes under its code, with path and advice", async () => {
      await machine.makeFolder("/root/folder", {});
      await shell(machine, "install -m 700 -d /root/private && mkfifo /root/fifo");
      const failures: [() => Promise<unknown>, string][] = [
        [() => machine.readFile("/root/none", {}), "file_not_found"],
        [() => machine.readFile("/root/folder", {}), "file_invalid"],
        [() => machine.readFile("/root/fifo", {}), "file_invalid"],
        [() => machine.readFile("relative", {}), "file_invalid"],
        [() => machine.makeFolder("/root/folder", {}), "file_exists"],
        [() => machine.listFiles("/root/private", { user: "nobody" }), "permission_denied"],
        [() => machine.moveFile("/root/folder", "/root/private", {}), "file_exists"],
        [() => machine.removeFile("/root/none", {}), "file_not_found"],
        [() => machine.watchFiles("/root/none", {}), "file_not_found"],
        [() => machine.readTree("/root/none", {}), "file_not_found"],
        [() => machine.statFile("/root", { user: "nosuchuser" }), "invalid_request"],
      ];
      for (const [failure, code] of failures) {
        const error = await failure().then(
          () => null,
          (thrown: Error) => thrown,
        );
        expect(error).toMatchObject({ name: "SandpoolError", code, hint: expect.stringMatching(/./) });
      }
    });

    test("a part of a file is read, and a reader that has enough leaves the channel whole", async () => {
      await shell(machine, "seq 1 3000000 >/root/long");
      const { stat, content } = await machine.readFile("/root/long", { offset: 4, length: 6 });
      expect(stat).toMatchObject({ size: 22_888_896, kind: "file" });
      expect(await textOf(content)).toBe("3\n4\n5\n");
      const { content: long } = await machine.readFile("/root/long", {});
      await once(long, "readable");
      long.destroy();
      expect(await shell(machine, "echo works")).toBe("works\n");
    });

    test("folders are made, listed in order, moved and removed", async () => {
      await machine.makeFolder("/root/a/b", { parents: true, mode: 0o750 });
      await Promise.all(["2", "1"].map((file) => machine.writeFile(`/root/a/b/${file}`, bytesOf(file), {})));
      const list = await machine.listFiles("/root/a", { depth: 2 });
      expect(list.entries.map(({ path }) => path)).toEqual(["/root/a/b", "/root/a/b/1", "/root/a/b/2"]);
      const rest = await machine.listFiles("/root/a", { depth: 2, after: "/root/a/b/1" });
      expect(rest).toMatchObject({ entries: [{ path: "/root/a/b/2" }], more: false });
      await machine.moveFile("/root/a/b/1", "/root/a/b/2", { replace: true });
      expect(await textOf((await machine.readFile("/root/a/b/2", {})).content)).toBe("1");
      await expect(machine.removeFile("/root/a", {})).rejects.toMatchObject({ code: "file_invalid" });
      await machine.removeFile("/root/a", { recursive: true });
      await expect(machine.statFile("/root/a", {})).rejects.toMatchObject({ code: "file_not_found" });
    });

    test("a folder goes in and comes out as a tar", async () => {
      const tar = pack();
      tar.entry({ name: "sub", type: "directory", mode: 0o755 });
      tar.entry({ name: "sub/file", mode: 0o755 }, "inner");
      tar.finalize();
      const counts = await machine.writeTree("/root/tree", Readable.from(tar), {});
      expect(counts).toEqual({ entries: 2, bytes: 5 });
      const names: string[] = [];
      const reading = extract();
      (await machine.readTree("/root/tree", {})).pipe(reading);
      for await (const entry of reading) {
        names.push(`${entry.header.name} ${entry.header.mode?.toString(8)}`);
        entry.resume();
      }
      expect(names).toEqual([expect.stringMatching(/^sub\/? 755$/), "sub/file 755"]);
    });

    test("a watch tells changes as lines, and ends when it is let go", async () => {
      await machine.makeFolder("/root/watched", {});
      const watch = await machine.watchFiles("/root/watched", { recursive: true });
      await shell(machine, "echo a >/root/watched/new");
      let text = "";
      for await (const piece of watch) {
        text += String(piece);
        if (text.includes('"created"')) break;
      }
      expect(JSON.parse(text.split("\n")[0] as string)).toEqual({ kind: "created", path: "/root/watched/new" });
      expect(watch.destroyed).toBe(true);
      await machine.removeFile("/root/watched", { recursive: true });
    });

    test("row 25: a large file goes up and down through flat memory", async () => {
      // A kernel in user space takes its time; what is looked at is this side.
      const sizeBytes = (name === "gvisor" ? 256 : 1024) * MIB;
      const hash = createHash("sha256");
      const before = process.memoryUsage().rss;
      let peak = before;
      const timer = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage().rss);
      }, 20);
      const { bytes, sha256 } = await machine.writeFile("/root/large", numbered(sizeBytes), { size: sizeBytes });
      expect(bytes).toBe(sizeBytes);
      const { content } = await machine.readFile("/root/large", {});
      for await (const piece of content) hash.update(piece as Buffer);
      clearInterval(timer);
      expect(hash.digest("hex")).toBe(sha256);
      expect((peak - before) / MIB).toBeLessThan(200);
      await machine.removeFile("/root/large", {});
    });

    test("a port is reached both ways, each direction ends on its own", async () => {
      const server = `
import socket
s = socket.create_server(("127.0.0.1", 4000))
c, _ = s.accept()
data = b""
while chunk := c.recv(65536): data += chunk
c.sendall(str(len(data)).encode() + b" " + data[-3:])
c.close()
`;
      const { id } = await machine.startExec(execOf(["/usr/bin/python3", "-c", server]));
      while (!(await machine.listPorts()).some(({ port }) => port === 4000)) await sleep(10);
      const connection = await machine.dialPort(4000);
      numbered(5_000_000).pipe(connection, { end: false });
      await once(connection, "unpipe");
      connection.end("end");
      expect(await textOf(connection as unknown as Readable)).toBe("5000003 end");
      expect(await machine.waitExec(id, { collect: false })).toMatchObject({ exitCode: 0 });
    });

    test("a program that ends its side first is still written to; a connection that breaks is no end", async () => {
      const server = `
import socket
s = socket.create_server(("127.0.0.1", 4001))
c, _ = s.accept()
c.sendall(b"hello"); c.shutdown(socket.SHUT_WR)
total = 0
try:
    while chunk := c.recv(65536): total += len(chunk)
    print("end", total)
except ConnectionResetError: print("reset")
c, _ = s.accept()
try:
    c.recv(1); print("end")
except ConnectionResetError: print("reset")
`;
      const { id } = await machine.startExec(execOf(["/usr/bin/python3", "-c", server]));
      while (!(await machine.listPorts()).some(({ port }) => port === 4001)) await sleep(10);
      const first = await machine.dialPort(4001);
      expect(await textOf(first as unknown as Readable)).toBe("hello");
      first.end("after");
      const second = await machine.dialPort(4001);
      second.destroy();
      const outcome = await machine.waitExec(id, { collect: true });
      expect(String(outcome.stdout.content)).toMatch(/^end 5\n/);
      await expect(machine.dialPort(4001)).rejects.toMatchObject({ code: "port_refused", details: { port: 4001 } });
    });

    test("many connections at once keep their bytes apart", async () => {
      const script = `
import socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(self.rfile.read().upper())
class S(socketserver.ThreadingTCPServer): request_queue_size = 128
S(("127.0.0.1", 4002), H).serve_forever()
`;
      const { id } = await machine.startExec(execOf(["/usr/bin/python3", "-c", script]));
      while (!(await machine.listPorts()).some(({ port }) => port === 4002)) await sleep(10);
      const answers = await Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          const connection = await machine.dialPort(4002);
          connection.end(`word-${index} `.repeat(10_000));
          return await textOf(connection as unknown as Readable);
        }),
      );
      for (const [index, answer] of answers.entries()) expect(answer).toBe(`WORD-${index} `.repeat(10_000));
      await machine.signalExec(id, "KILL", true);
    });
  });
}
