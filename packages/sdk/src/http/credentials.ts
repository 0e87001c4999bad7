import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { ArgumentError, SandpoolError } from "../errors.ts";

export interface Endpoint {
  url: string;
  key: string;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** `${XDG_CONFIG_HOME:-~/.config}/sandpool/credentials.json`, where `sandpool up` leaves the url and key. */
export function credentialsPath(variables: Variables = process.env): string {
  return join(variables.XDG_CONFIG_HOME || join(homedir(), ".config"), "sandpool", "credentials.json");
}

/**
 * Finds the server and key: explicit values first, then `SANDPOOL_URL` with `SANDPOOL_API_KEY`, then the credentials file.
 * A key found with one url is never sent to another.
 */
export function discoverEndpoint(
  explicit: { url?: string | undefined; apiKey?: string | undefined } = {},
  variables: Variables = process.env,
): Endpoint {
  const file = readCredentials(credentialsPath(variables));
  const url = explicit.url ?? variables.SANDPOOL_URL ?? file.url;
  if (!url) {
    throw new SandpoolError(
      "no_server_configured",
      "No server: SANDPOOL_URL is not set and the credentials file names no url.",
      {
        hint: `Start a server with "sandpool up", or set SANDPOOL_URL and SANDPOOL_API_KEY. Credentials file: ${credentialsPath(variables)}`,
      },
    );
  }
  const origin = normaliseUrl(url);
  const key = explicit.apiKey ?? keyFor(origin, explicit.url !== undefined, file, variables);
  if (!key) {
    throw new SandpoolError(
      "no_key",
      `No key for ${origin}: neither SANDPOOL_API_KEY nor the credentials file has one for this url.`,
      {
        hint: `Set SANDPOOL_URL=${origin} together with SANDPOOL_API_KEY, or make a key with "sandpool keys create" on the server.`,
      },
    );
  }
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new SandpoolError(
      "no_key",
      "The key holds characters a key never has; expected printable ASCII without spaces.",
      {
        hint: "Check SANDPOOL_API_KEY for quotes or a newline.",
      },
    );
  }
  return { url: origin, key };
}

function keyFor(origin: string, explicit: boolean, file: Partial<Endpoint>, variables: Variables): string | undefined {
  const { SANDPOOL_URL: variableUrl, SANDPOOL_API_KEY: variableKey } = variables;
  // Without SANDPOOL_URL, the variable's key belongs to a url given by hand, never to the one in the file.
  const forVariable = variableUrl ? normaliseUrl(variableUrl) === origin : explicit;
  if (variableKey && forVariable) return variableKey;
  return file.url && file.key && normaliseUrl(file.url) === origin ? file.key : undefined;
}

function readCredentials(path: string): Partial<Endpoint> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw new SandpoolError("bad_credentials_file", `${path} cannot be read: ${(cause as Error).message}.`, {
      cause,
      hint: "Check its owner and mode (0600), or set SANDPOOL_URL and SANDPOOL_API_KEY.",
    });
  }
  try {
    const content = JSON.parse(text) as { url?: unknown; key?: unknown };
    return {
      ...(typeof content.url === "string" && { url: content.url }),
      ...(typeof content.key === "string" && { key: content.key }),
    };
  } catch (cause) {
    throw new SandpoolError("bad_credentials_file", `${path} is not JSON; expected {"url": "…", "key": "…"}.`, {
      cause,
      hint: `Remove the file and run "sandpool up" again.`,
    });
  }
}

/** A url without a trailing slash, query or fragment; refuses what is not http. */
export function normaliseUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    throw new ArgumentError(
      `The server's url is ${JSON.stringify(text)}; expected http://host:port or https://host:port.`,
      { hint: "Correct SANDPOOL_URL, the url option or the credentials file." },
    );
  }
  return (url.origin + url.pathname).replace(/\/+$/, "");
}
