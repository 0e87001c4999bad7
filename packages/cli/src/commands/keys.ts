import { Sandpool } from "sandpool";
import { EXIT } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";

/** Makes a key and prints it once. */
export async function createKey(output: Output, name: string, options: { owner?: string }): Promise<number> {
  const created = await new Sandpool().createKey(name, options);
  if (output.json) output.document(created);
  else {
    output.line(safe(created.key));
    output.note(
      `Key ${safe(created.id)} "${safe(created.name)}". It is shown only now; give it to clients as SANDPOOL_API_KEY.`,
    );
  }
  return EXIT.ok;
}

export async function listKeys(output: Output): Promise<number> {
  const keys = await new Sandpool().listKeys();
  if (output.json) output.document({ keys });
  else {
    const rows = keys.map((key) => [key.id, key.name, key.owner, key.admin ? "yes" : "no", key.created_at]);
    output.table(["ID", "NAME", "OWNER", "ADMIN", "CREATED"], rows);
  }
  return EXIT.ok;
}

/** Revokes a key by id; connections that use it are refused from then on. */
export async function revokeKey(output: Output, id: string): Promise<number> {
  const revoked = await new Sandpool().revokeKey(id);
  if (output.json) output.document(revoked);
  else output.line(`Revoked ${safe(revoked.id)}.`);
  return EXIT.ok;
}
