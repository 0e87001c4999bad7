import { MAX_SESSION_LENGTH, SandpoolError, STREAM_PROTOCOLS } from "@sandpool/protocol";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { checked } from "../batches/requests.ts";

/** The query of `GET /v1/pools/{id}/stream`. */
export const StreamQuery = Type.Object(
  {
    session: Type.String({
      minLength: 1,
      maxLength: MAX_SESSION_LENGTH,
      description: "the client's name for the session, by which it comes back after a broken connection",
    }),
    received: Type.Optional(
      Type.String({ pattern: "^[0-9]{1,15}$", description: "number of the last result message the client has" }),
    ),
  },
  { additionalProperties: false },
);

const checkQuery = Compile(StreamQuery);

/** @throws `invalid_request` */
export function readQuery(query: URLSearchParams): { session: string; received: number } {
  const names = [...query.keys()];
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new SandpoolError("invalid_request", `the query has ${JSON.stringify(twice.slice(0, 80))} twice`);
  }
  const { session, received } = checked(checkQuery, Object.fromEntries(query));
  return { session, received: Number(received ?? 0) };
}

/** The first subprotocol of the header that the server speaks; none without the header. @throws `invalid_request` */
export function chooseProtocol(header: string | undefined): string | null {
  if (header === undefined) return null;
  const known: readonly string[] = Object.values(STREAM_PROTOCOLS);
  const offered = header.split(",").map((name) => name.trim());
  const chosen = offered.find((name) => known.includes(name));
  if (chosen !== undefined) return chosen;
  throw new SandpoolError("invalid_request", `Sec-WebSocket-Protocol is ${JSON.stringify(header.slice(0, 200))}`, {
    hint: `offer ${known.join(" or ")}`,
    details: { received: header.slice(0, 200), expected: known },
  });
}
