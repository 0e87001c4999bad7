import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { digestOf, json, makeConfig } from "./support.ts";

const manifestType = "application/vnd.oci.image.manifest.v1+json";
const indexType = "application/vnd.oci.image.index.v1+json";

/** A registry by the distribution specification, as far as a pull reads it. */
export class Registry {
  readonly blobs = new Map<string, Buffer>();
  readonly manifests = new Map<string, { type: string; body: Buffer }>();
  /** Paths that were asked for, with their authorization. */
  readonly asked: { path: string; authorization: string | null }[] = [];
  /** A token that every read needs; its server is this one. */
  token: string | null = null;
  /** Blobs are served by that origin instead. */
  blobOrigin: string | null = null;
  /** How often a blob's connection breaks off in its middle. */
  breaks = 0;
  readonly #server: Server = createServer((request, response) => this.#serve(request, response));

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get host(): string {
    return `localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Puts an image under a tag. @returns its digest */
  push(tag: string, tars: readonly Buffer[], config: Record<string, unknown> = {}): string {
    const document = makeConfig(tars, config);
    const layers = tars.map((tar) => this.#blob(gzipSync(tar), "application/vnd.oci.image.layer.v1.tar+gzip"));
    const manifest = { schemaVersion: 2, mediaType: manifestType, config: this.#blob(document, "config"), layers };
    return this.put(tag, manifestType, manifest);
  }

  /** Puts an index under a tag, of digests by platform. */
  pushIndex(tag: string, platforms: Record<string, string>): string {
    const manifests = Object.entries(platforms).map(([platform, digest]) => {
      const [os, architecture] = platform.split("/");
      const size = this.manifests.get(digest)?.body.length ?? 0;
      return { mediaType: manifestType, digest, size, platform: { os, architecture } };
    });
    return this.put(tag, indexType, { schemaVersion: 2, manifests });
  }

  put(tag: string, type: string, manifest: unknown): string {
    const body = json(manifest);
    const digest = digestOf(body);
    for (const name of [tag, digest]) this.manifests.set(name, { type, body });
    return digest;
  }

  #blob(bytes: Buffer, mediaType: string): { mediaType: string; digest: string; size: number } {
    const digest = digestOf(bytes);
    this.blobs.set(digest, bytes);
    return { mediaType, digest, size: bytes.length };
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? "";
    const authorization = request.headers.authorization ?? null;
    this.asked.push({ path, authorization });
    if (path.startsWith("/token")) return void response.end(json({ token: this.token }));
    if (this.token !== null && authorization !== `Bearer ${this.token}`) {
      const challenge = `Bearer realm="http://${this.host}/token",service="test"`;
      return void response.writeHead(401, { "www-authenticate": challenge }).end();
    }
    const [, kind, name = ""] = /^\/v2\/team\/app\/(manifests|blobs)\/(.+)$/.exec(path) ?? [];
    if (kind === "manifests") {
      const found = this.manifests.get(name);
      if (found === undefined) return void response.writeHead(404).end();
      return void response.writeHead(200, { "content-type": found.type }).end(found.body);
    }
    if (kind === "blobs" && this.blobOrigin !== null)
      return void response.writeHead(307, { location: `${this.blobOrigin}${path}` }).end();
    this.#sendBlob(response, this.blobs.get(name));
  }

  #sendBlob(response: ServerResponse, blob: Buffer | undefined): void {
    if (blob === undefined) return void response.writeHead(404).end();
    response.writeHead(200, { "content-length": blob.length });
    if (this.breaks === 0) return void response.end(blob);
    this.breaks -= 1;
    response.write(blob.subarray(0, blob.length / 2), () => response.destroy());
  }
}
