import { SandpoolError } from "../errors.ts";
import { parseJson } from "../values/json.ts";

const LINE_LIMIT_CHARACTERS = 64 * 1024 * 1024;

/** The JSON values of a newline-delimited body, one by one as they arrive. */
export async function* readNdjson(body: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > LINE_LIMIT_CHARACTERS) {
      throw new SandpoolError("protocol_violation", `The server sent a line over ${LINE_LIMIT_CHARACTERS} characters.`);
    }
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield parseJson(line);
  }
  if (rest.trim() !== "") yield parseJson(rest);
}
