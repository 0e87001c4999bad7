import { type Agent, request } from "undici";
import { asObject, parseJson } from "../config.ts";
import { imageFailed } from "../failed.ts";
import { explainConnection, readLimited } from "./client.ts";

export interface Challenge {
  realm: string;
  service: string | null;
}

const tokenLimitBytes = 2 ** 20;

/** A `WWW-Authenticate: Bearer …` header; null where it asks for something else. */
export function parseChallenge(header: string): Challenge | null {
  if (!/^bearer\s/i.test(header)) return null;
  const value = (name: string): string | null => new RegExp(`[\\s,]${name}="([^"]*)"`, "i").exec(header)?.[1] ?? null;
  const realm = value("realm");
  return realm === null ? null : { realm, service: value("service") };
}

/** A token for anybody, as most registries give them for public images. */
export async function fetchToken(
  challenge: Challenge,
  scope: string,
  registry: URL,
  agent: Agent,
  signal: AbortSignal,
): Promise<string> {
  const url = URL.parse(challenge.realm);
  if (url === null || (url.protocol !== "https:" && url.origin !== registry.origin))
    throw imageFailed(`${registry.origin} names a token server that is not https.`);
  url.searchParams.set("scope", scope);
  if (challenge.service !== null) url.searchParams.set("service", challenge.service);
  const reply = await request(url, { dispatcher: agent, headers: { accept: "application/json" }, signal }).catch(
    (error: unknown) => {
      throw explainConnection(error, url, signal);
    },
  );
  const body = await readLimited(reply.body, tokenLimitBytes);
  if (reply.statusCode !== 200)
    throw imageFailed(`${url.origin} gives no token to read the image (status ${reply.statusCode}).`, {
      hint: "The image needs a login, or its name is wrong.",
    });
  const { token, access_token: other } = asObject(parseJson(body, "token"), "token");
  const found = token ?? other;
  if (typeof found !== "string" || !/^[\x21-\x7e]+$/.test(found)) throw imageFailed(`${url.origin} gives no token.`);
  return `Bearer ${found}`;
}
