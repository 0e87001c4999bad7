import { randomBytes } from "node:crypto";
import { chmod, lstat, mkdir, readFile, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import type { Driver, SandboxMount } from "../../drivers/driver.ts";
import { findTool } from "../../host/tools.ts";
import { type AllowedHost, findAllowedHosts } from "../../layers/allowed-hosts.ts";
import { findCertificates } from "../../layers/build.ts";
import { type EgressProxy, startEgressProxy } from "../../layers/egress.ts";
import { findPackageIndex, type PackageIndex } from "../../layers/index.ts";
import { findUv, type UvProgram } from "../../layers/uv.ts";
import { assembleImage } from "../assemble.ts";
import { emptyConfig } from "../config.ts";
import type { ImageOptions } from "../contract.ts";
import { imageFailed } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import type { ImageManifest } from "../manifest.ts";
import { type DebianMirror, findDebianMirror, sourceLines } from "./mirror.ts";
import { type Recipe, recipesFolder } from "./recipe.ts";
import { runBuild } from "./run.ts";

export interface BuildInput {
  recipe: Recipe;
  driver: Driver;
  /** Of all images. */
  folder: string;
  work: string;
  limits: ImageLimits;
  privateHosts: readonly string[];
}

/** What a build finds on this host. */
interface Sources {
  mirror: DebianMirror;
  /** Null where the recipe asks for no Python package. */
  python: { uv: UvProgram; index: PackageIndex } | null;
  certificates: string | null;
}

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
const memoryBytes = 4 * 2 ** 30;

/**
 * Builds a recipe in a sandbox of its own, whose only way out is a proxy that knows Debian's mirror and the package index. What comes out is
 * a tar that is trusted no more than an imported one.
 */
export async function buildRecipe(input: BuildInput, options: ImageOptions): Promise<ImageManifest> {
  const { recipe, folder, work, limits } = input;
  await checkTools(input.driver);
  const sources: Sources = {
    mirror: await findDebianMirror(),
    python: recipe.python.length === 0 ? null : await findPython(),
    certificates: findCertificates(),
  };
  const output = join(work, "output");
  await mkdir(output);
  // The sandbox's user is unknown until it runs; nobody else knows the name of the folder above, which cannot be listed.
  await chmod(output, 0o777);
  const proxyFolder = join(work, "egress");
  await mkdir(proxyFolder);
  await chmod(proxyFolder, 0o711);
  const hosts = await findHosts(input, sources, options.signal);
  let proxy: EgressProxy | null = null;
  try {
    proxy = await startEgressProxy(proxyFolder, hosts, limits.packedBytes);
    const mounts = await buildMounts(input, sources, output);
    await runBuild(
      { ...input, proxy, mounts, id: `image-${randomBytes(8).toString("hex")}`, memoryBytes: buildMemory() },
      options,
    );
  } finally {
    await proxy?.close();
  }
  const path = join(output, "image.tar");
  // A sandbox wrote there, and is gone.
  const found = await lstat(path).catch(() => null);
  if (found?.isFile() !== true) throw imageFailed(`The build of ${recipe.name} ended well and left no image.`);
  const config = { ...emptyConfig, environ: recipe.environment };
  return await assembleImage(
    { folder, work, limits, config, layers: [{ path, diffId: null, whiteouts: false }] },
    options,
  );
}

async function checkTools(driver: Driver): Promise<void> {
  if (findTool("mmdebstrap") === null)
    throw imageFailed("Images are built with mmdebstrap, which is not on this host.", {
      hint: "apt-get install -y mmdebstrap",
    });
  if ((await lstat(keyring).catch(() => null)) === null)
    throw imageFailed("Debian's archive keys are not on this host.", {
      hint: "apt-get install -y debian-archive-keyring",
    });
  const probe = await driver.probe();
  if (!probe.available)
    throw imageFailed(`Images are built in a sandbox, and this host can make none: ${probe.reason}.`, {
      ...(probe.hint === null ? {} : { hint: probe.hint }),
    });
}

async function findPython(): Promise<{ uv: UvProgram; index: PackageIndex }> {
  const uv = await findUv();
  return { uv, index: await findPackageIndex(uv.path) };
}

async function findHosts(
  { recipe, privateHosts }: BuildInput,
  { mirror, python, certificates }: Sources,
  signal: AbortSignal,
): Promise<AllowedHost[]> {
  const own = [mirror.packages, ...(mirror.security === null ? [] : [mirror.security])].map((address): AllowedHost => {
    const { protocol, hostname, port } = new URL(address);
    const scheme = protocol === "http:" ? "http" : "https";
    const usual = scheme === "http" ? 80 : 443;
    // The operator's own choice, as the host's package index is.
    return { host: hostname.toLowerCase(), port: port === "" ? usual : Number(port), scheme, privateAddresses: true };
  });
  if (python === null) return own;
  const text = certificates === null ? null : await readFile(certificates, "utf8").catch(() => null);
  const names = recipe.python.map((line) => /^[\w.-]+/.exec(line)?.[0] ?? "");
  return [...own, ...(await findAllowedHosts(python.index, names, privateHosts, text, signal))];
}

async function buildMounts(
  { recipe, work }: BuildInput,
  { mirror, python, certificates }: Sources,
  output: string,
): Promise<SandboxMount[]> {
  const inputs = join(work, "inputs");
  await mkdir(inputs);
  const files = {
    "sources.list": sourceLines(mirror, recipe.release, keyring),
    packages: [recipe.packages.join(",")],
    "requirements.txt": recipe.python,
    links: Object.entries(recipe.links).map(([path, target]) => `${path} ${target}`),
    index: python === null ? [] : [python.index.default, ...python.index.extra],
  };
  for (const [name, lines] of Object.entries(files)) {
    await writeFile(join(inputs, name), lines.map((line) => `${line}\n`).join(""));
    await chmod(join(inputs, name), 0o644);
  }
  await chmod(inputs, 0o755);
  const readOnly = (source: string, target: string): SandboxMount => ({ source, target, readOnly: true });
  return [
    { source: output, target: "/build", readOnly: false },
    readOnly(inputs, "/sandpool/inputs"),
    readOnly(join(recipesFolder, "build.sh"), "/sandpool/build.sh"),
    readOnly(join(recipesFolder, "customize.sh"), "/sandpool/customize.sh"),
    ...(python === null ? [] : [readOnly(python.uv.path, "/sandpool/uv")]),
    ...(certificates === null ? [] : [readOnly(certificates, "/sandpool/certificates.pem")]),
  ];
}

function buildMemory(): number {
  return Math.min(memoryBytes, totalmem());
}
