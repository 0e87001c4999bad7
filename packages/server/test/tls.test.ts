import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestServer, temporaryFolder } from "./startTestServer.ts";

async function makeCertificate(): Promise<{ cert: Buffer; key: Buffer }> {
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "1",
      ...subject,
      "-keyout",
      key,
      "-out",
      cert,
    ],
    {
      stdio: "ignore",
    },
  );
  return { cert: await readFile(cert), key: await readFile(key) };
}

test("over TLS the same gate stands, and an Origin of plain http is foreign", async () => {
  const tls = await makeCertificate();
  const server = await startTestServer({ tls, listen: "0.0.0.0:0" });
  const { port } = new URL(server.running.url);
  expect(server.running.url).toBe(`https://localhost:${port}`);
  const status = (headers: Record<string, string>) =>
    new Promise((resolve, reject) => {
      request(
        { host: "127.0.0.1", port, path: "/v1/pools", agent: false, ca: tls.cert, servername: "localhost", headers },
        (response) => {
          response.resume().on("end", () => resolve(response.statusCode));
        },
      )
        .on("error", reject)
        .end();
    });
  const authorization = `Bearer ${server.running.key}`;
  expect(await status({ authorization })).toBe(200);
  expect(await status({})).toBe(401);
  expect(await status({ authorization, origin: `https://localhost:${port}` })).toBe(200);
  expect(await status({ authorization, origin: `http://localhost:${port}` })).toBe(403);
  expect(await status({ authorization, host: `evil.example:${port}` })).toBe(403);
});

test("a further name is allowed exactly as it was given", async () => {
  const server = await startTestServer({ allowedHosts: ["box.example", "proxy.example:8443"] });
  const statusFor = async (host: string) => (await server.send({ path: "/v1/pools", headers: { host } })).status;
  expect(await statusFor(`box.example:${server.port}`)).toBe(200);
  expect(await statusFor("proxy.example:8443")).toBe(200);
  expect(await statusFor("box.example")).toBe(403);
  expect(await statusFor(`proxy.example:${server.port}`)).toBe(403);
  expect(await statusFor(`a.box.example:${server.port}`)).toBe(403);
});
