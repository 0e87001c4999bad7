import type { Readable } from "node:stream";
import type { Image, ImageEvent, RemovedImage } from "@sandpool/protocol";
import { errorFromWire, SandpoolError } from "../errors.ts";
import { readNdjson } from "../http/ndjson.ts";
import type { RequestOptions, Transport } from "../http/transport.ts";

export type ImageProgress = Omit<Extract<ImageEvent, { event: "progress" }>, "event">;

export interface MakeImageOptions {
  /** `text` is a builder's own line: escape it before it reaches a terminal. */
  onProgress?: (progress: ImageProgress) => void;
  signal?: AbortSignal;
}

// Between two lines, heartbeats among them.
const SILENCE_LIMIT_MS = 300_000;

/**
 * Root file systems that machines are made from, kept on the server's host and shared by its keys.
 *
 * @example
 * const { images } = new Sandpool();
 * await images.build("python", { onProgress: ({ phase, done }) => console.log(phase, done) });
 */
export class Images {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Every image of the server's host, and the recipes that can be built, whose id is null. */
  async list(): Promise<Image[]> {
    return ((await this.#transport.json("GET", "/v1/images", { retries: 3 })) as { images: Image[] }).images;
  }

  /** Builds a recipe; one that is built already is there at once. */
  build(recipe: string, options: MakeImageOptions = {}): Promise<Image> {
    return this.#make("POST", "/v1/images", { body: JSON.stringify({ build: recipe }) }, options);
  }

  /** Pulls from a registry: `[registry/]name[:tag]` or `…@sha256:DIGEST`. The image's `source` has the digest. */
  pull(reference: string, options: MakeImageOptions = {}): Promise<Image> {
    return this.#make("POST", "/v1/images", { body: JSON.stringify({ pull: reference }) }, options);
  }

  /** Imports a tar: an OCI layout, what `docker save` writes, or a root file system. */
  import(name: string, tar: Readable, options: MakeImageOptions = {}): Promise<Image> {
    const path = `/v1/images?name=${encodeURIComponent(name)}`;
    return this.#make("PUT", path, { body: tar, contentType: "application/x-tar" }, options);
  }

  /** Removes an image by name or id. @throws `image_in_use` while machines are made from it */
  async remove(nameOrId: string): Promise<RemovedImage> {
    const path = `/v1/images/${encodeURIComponent(nameOrId)}`;
    return (await this.#transport.json("DELETE", path)) as RemovedImage;
  }

  async #make(
    method: string,
    path: string,
    request: RequestOptions,
    { onProgress, signal }: MakeImageOptions,
  ): Promise<Image> {
    const options = { ...request, accept: "application/x-ndjson", signal, timeoutMs: SILENCE_LIMIT_MS };
    return await this.#transport.send(method, path, options, async ({ body }) => {
      for await (const line of readNdjson(body)) {
        const event = line as ImageEvent;
        if (event.event === "image") return event.image;
        if (event.event === "error") throw errorFromWire(event.status, event);
        if (event.event === "progress") onProgress?.(event);
      }
      throw new SandpoolError("protocol_violation", "The server's answer ended before the image was ready.");
    });
  }
}
