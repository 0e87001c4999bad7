import { open, readFile } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";

/** What an archive asks to have installed. */
export interface Dependencies {
  /** Path inside the archive, for `uv pip install -r`. */
  file: string;
  kind: "requirements" | "pyproject" | "script";
  /** Everything that decides what is installed: the key of the layer is made from it. */
  text: string;
  /** Names of the packages asked for, as far as they can be read; to find the index's file hosts. */
  names: string[];
  /** The text names files of the archive itself, so its content belongs to the key. */
  local: boolean;
}

const textLimitBytes = 1024 * 1024;

/** `requirements.txt`, else the dependencies of `pyproject.toml`, else the inline script metadata (PEP 723) of the entry; null without any. */
export async function readDependencies(tree: string, entry: string): Promise<Dependencies | null> {
  return (await fromRequirements(tree)) ?? (await fromPyproject(tree)) ?? (await fromScript(tree, entry));
}

async function fromRequirements(tree: string): Promise<Dependencies | null> {
  const text = await readWithIncludes(tree, "requirements.txt", new Set());
  if (text === null) return null;
  const lines = text.split("\n").map((line) => line.replace(/(?:^|\s)#.*$/, "").trim());
  const names = lines.map(packageName).filter((name) => name !== null);
  if (names.length === 0 && lines.every((line) => line === "" || /^-(?:r|c|-requirement|-constraint)\b/.test(line)))
    return null;
  const local = lines.some((line) =>
    /^(?:-e\b|--editable\b|\.|\/|file:)|@\s*(?:file:|\.|\/)|\.(?:whl|tar\.gz|zip)\b/.test(line),
  );
  return { file: "requirements.txt", kind: "requirements", text, names, local };
}

/** The file with every file it includes by -r or -c, each once. */
async function readWithIncludes(tree: string, path: string, seen: Set<string>): Promise<string | null> {
  const inside = normalize(path);
  if (inside.startsWith("..") || inside.startsWith("/") || seen.has(inside)) return "";
  seen.add(inside);
  const text = await readText(join(tree, inside));
  if (text === null) return null;
  const parts = [text];
  for (const match of text.matchAll(/^\s*(?:-r|-c|--requirement|--constraint)[\s=]+(\S+)/gm)) {
    parts.push(
      `\n# ${match[1]}\n`,
      (await readWithIncludes(tree, join(dirname(inside), match[1] as string), seen)) ?? "",
    );
  }
  return parts.join("");
}

async function fromPyproject(tree: string): Promise<Dependencies | null> {
  const text = await readText(join(tree, "pyproject.toml"));
  if (text === null) return null;
  const project = /^\[project\][^\S\n]*(?:#.*)?$([\s\S]*?)(?=^\[(?!\s*["'\]])|(?![\s\S]))/m.exec(text)?.[1] ?? "";
  const list = dependencyList(project);
  if (list === null || list.length === 0) return null;
  return {
    file: "pyproject.toml",
    kind: "pyproject",
    text,
    names: namesIn(list),
    local: /\bpath\s*=|@\s*file:/.test(text),
  };
}

async function fromScript(tree: string, entry: string): Promise<Dependencies | null> {
  if (!entry.endsWith(".py")) return null;
  const source = await readText(join(tree, entry));
  const block =
    source === null ? null : /^# \/\/\/ script\r?$\n((?:^#(?:| .*)\r?$\n)+?)^# \/\/\/\r?$/m.exec(source)?.[1];
  if (block === undefined || block === null) return null;
  const text = block.replace(/^# ?/gm, "");
  const list = dependencyList(text);
  if (list === null || list.length === 0) return null;
  return { file: entry, kind: "script", text, names: namesIn(list), local: /\bpath\s*=|@\s*file:/.test(text) };
}

/** The strings of `dependencies = [ … ]`. TOML's comments and both kinds of quotes are understood; uv reads the file itself later. */
function dependencyList(toml: string): string[] | null {
  const start = /^\s*dependencies\s*=\s*\[/m.exec(toml);
  if (start === null) return null;
  const strings: string[] = [];
  const token = /#[^\n]*|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|\]/y;
  token.lastIndex = start.index + start[0].length;
  const separators = /[\s,]*/y;
  for (;;) {
    separators.lastIndex = token.lastIndex;
    separators.exec(toml);
    token.lastIndex = separators.lastIndex;
    const match = token.exec(toml);
    if (match === null || match[0] === "]") return strings;
    const text = match[1] ?? match[2];
    if (text !== undefined) strings.push(text);
  }
}

function namesIn(requirements: readonly string[]): string[] {
  return requirements.map(packageName).filter((name) => name !== null);
}

function packageName(requirement: string): string | null {
  return /^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:$|[[<>=!~;@, ])/.exec(requirement)?.[1] ?? null;
}

async function readText(path: string): Promise<string | null> {
  try {
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      return size > textLimitBytes ? null : await readFile(file, "utf8");
    } finally {
      await file.close();
    }
  } catch {
    return null;
  }
}
