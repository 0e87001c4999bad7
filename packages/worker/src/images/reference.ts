import { fail } from "../fail.ts";
import { isDigest } from "./config.ts";

/** Where an image is in a registry. */
export interface Reference {
  /** As it was named: `docker.io`, `localhost:5000`. */
  registry: string;
  /** `library/python`. */
  repository: string;
  tag: string | null;
  digest: string | null;
}

const hub = "docker.io";
const registryPattern = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::\d{1,5})?$/i;
const repositoryPattern = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;

/**
 * Reads a reference as container tools write it: `[registry/]name[:tag][@sha256:…]`.
 *
 * @example parseReference("python:3.12") // docker.io, library/python, 3.12
 */
export function parseReference(text: string): Reference {
  const [named = "", digest = null, ...rest] = text.split("@");
  if (rest.length > 0 || (digest !== null && !isDigest(digest))) throw notAReference(text);
  const slash = named.indexOf("/");
  const first = slash === -1 ? "" : named.slice(0, slash);
  const hasRegistry = first === "localhost" || /[.:]/.test(first);
  const registry = hasRegistry ? first.toLowerCase() : hub;
  const path = hasRegistry ? named.slice(slash + 1) : named;
  const colon = path.lastIndexOf(":");
  const tag = colon === -1 ? null : path.slice(colon + 1);
  const name = colon === -1 ? path : path.slice(0, colon);
  const repository = registry === hub && !name.includes("/") ? `library/${name}` : name;
  if (!registryPattern.test(registry) || !repositoryPattern.test(repository) || repository.length > 255)
    throw notAReference(text);
  if (tag !== null && !tagPattern.test(tag)) throw notAReference(text);
  return { registry, repository, tag: tag ?? (digest === null ? "latest" : null), digest };
}

/** The whole of it, as the image is then named. */
export function nameOf({ registry, repository, tag, digest }: Reference): string {
  return `${registry}/${repository}${tag === null ? "" : `:${tag}`}${digest === null ? "" : `@${digest}`}`;
}

/** The host that answers for a registry; one of them has its API elsewhere. */
export function apiHost(registry: string): string {
  return registry === hub ? `registry-1.${hub}` : registry;
}

function notAReference(text: string): Error {
  return fail("invalid_request", `${JSON.stringify(text.slice(0, 200))} names no image of a registry.`, {
    hint: "Expected [registry/]name[:tag] or [registry/]name@sha256:DIGEST, such as ghcr.io/owner/name:1.2.",
    details: { received: text.slice(0, 512) },
  });
}
