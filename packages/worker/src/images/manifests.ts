import { createHash } from "node:crypto";
import { asObject, type ImageDocument, isDigest, parseJson } from "./config.ts";
import { imageFailed } from "./failed.ts";
import type { ImageLimits } from "./limits.ts";

/** A content-addressed part of an image. */
export interface Descriptor {
  digest: string;
  bytes: number;
}

export interface OciManifest {
  config: Descriptor;
  layers: Descriptor[];
}

export const manifestTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** Manifests and configurations are small; a larger one is no image of ours. */
export const documentLimitBytes = 4 * 2 ** 20;
const deepestIndex = 3;

/** Reads a content-addressed document; it need not check the digest. */
export type ReadDocument = (descriptor: Descriptor) => Promise<Buffer>;

/** From a manifest, or from an index down to the one of this host's kind. Every document that is read has to have its digest. */
export async function findManifest(first: Buffer, read: ReadDocument, limits: ImageLimits): Promise<OciManifest> {
  let body = first;
  for (let depth = 0; depth <= deepestIndex; depth += 1) {
    const document = asObject(parseJson(body, "manifest"), "manifest");
    if (!Array.isArray(document.manifests)) return readOciManifest(document, limits);
    body = await readChecked(chooseManifest(document.manifests), read);
  }
  throw imageFailed(`The image is an index of indexes, over ${deepestIndex} deep.`);
}

export async function readChecked(descriptor: Descriptor, read: ReadDocument): Promise<Buffer> {
  if (descriptor.bytes > documentLimitBytes)
    throw imageFailed(`${descriptor.digest} has ${descriptor.bytes} bytes; a manifest or configuration has less.`);
  const body = await read(descriptor);
  checkDigest(digestOf(body), descriptor.digest);
  return body;
}

export function digestOf(body: Buffer): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

export function checkDigest(received: string, expected: string): void {
  if (received === expected) return;
  throw imageFailed(`What was received has the digest ${received}; ${expected} was asked for.`, {
    hint: "The image was changed or damaged on the way, so nothing of it is used; try again, or ask who serves it.",
    details: { received, expected },
  });
}

/** As images name the architecture of this host. */
export function hostArchitecture(): string {
  return process.arch === "x64" ? "amd64" : process.arch;
}

/** Refuses what cannot run here, before anything large is read. */
export function checkDocument({ diffIds, architecture, os }: ImageDocument, layers: number): void {
  if (diffIds.length !== layers)
    throw imageFailed(`The image has ${layers} layers and ${diffIds.length} diff ids; each layer has one.`);
  if (layers === 0) throw imageFailed("The image has no layer.");
  if ((os ?? "linux") !== "linux" || (architecture ?? hostArchitecture()) !== hostArchitecture())
    throw imageFailed(`The image is made for ${os}/${architecture}; this host is linux/${hostArchitecture()}.`, {
      hint: "Choose or build one for this host's architecture.",
    });
}

function chooseManifest(entries: readonly unknown[]): Descriptor {
  const found: Descriptor[] = [];
  const offered: string[] = [];
  for (const entry of entries) {
    const member = asObject(entry, "index");
    const platform = member.platform === undefined ? null : asObject(member.platform, "platform");
    const name = platform === null ? "unnamed" : `${String(platform.os)}/${String(platform.architecture)}`;
    offered.push(name.slice(0, 40));
    if (platform === null || name === `linux/${hostArchitecture()}`) found.push(readDescriptor(member, "index"));
  }
  const [first] = found;
  if (first !== undefined && new Set(found.map(({ digest }) => digest)).size === 1) return first;
  const want = `linux/${hostArchitecture()}`;
  if (first !== undefined)
    throw imageFailed(`There are ${found.length} images for ${want}; one was expected.`, {
      hint: "Name one by its digest, or save one only.",
      details: { digests: found.slice(0, 20).map(({ digest }) => digest) },
    });
  throw imageFailed(
    `The image is not made for ${want}; it is there for ${offered.slice(0, 20).join(", ") || "nothing"}.`,
    {
      hint: "Choose or build one for this host's architecture.",
      details: { offered: offered.slice(0, 20), wanted: want },
    },
  );
}

function readOciManifest(document: Record<string, unknown>, limits: ImageLimits): OciManifest {
  if (document.config === undefined || !Array.isArray(document.layers))
    throw imageFailed(
      `The manifest is of a kind that is no image (${String(document.mediaType ?? "unknown").slice(0, 80)}).`,
      {
        hint: "Images have the manifest of Docker's version 2 or of OCI.",
      },
    );
  const layers = document.layers.map((layer) => readDescriptor(asObject(layer, "layers"), "layers"));
  if (layers.length > limits.layers)
    throw imageFailed(`The image has ${layers.length} layers; at most ${limits.layers} are allowed.`);
  return { config: readDescriptor(asObject(document.config, "config"), "config"), layers };
}

function readDescriptor(member: Record<string, unknown>, name: string): Descriptor {
  const { digest, size } = member;
  if (isDigest(digest) && Number.isSafeInteger(size) && (size as number) >= 0) return { digest, bytes: size as number };
  throw imageFailed(`A descriptor in the manifest's ${name} has no SHA-256 digest and size.`, {
    details: { digest: String(digest).slice(0, 100), size: String(size).slice(0, 30) },
  });
}
