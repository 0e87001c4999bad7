import type { Command } from "commander";
import { type Finish, type Flags, leaf, perform, run } from "../../leaf.ts";
import { wholeNumber } from "../../options.ts";
import type { NewOptions } from "./create.ts";
import type { ExecFlags } from "./exec.ts";
import type { ListOptions } from "./list.ts";
import { machineSize, pairs, seconds, signalName } from "./options.ts";
import type { UrlOptions } from "./url.ts";

// Each command is loaded when it runs, so that help, errors and small commands start at once.
const life = () => import("./life.ts");
const execs = () => import("./execs.ts");
const interactive = () => import("./shell.ts");

const port = wholeNumber(1, 65_535);

export function addMachineCommands(machine: Command, finish: Finish): void {
  addMaking(machine, finish);
  addLife(machine, finish);
  addExec(machine, finish);
  addExecs(machine, finish);
  addFilesAndPorts(machine, finish);
}

function addMaking(machine: Command, finish: Finish): void {
  leaf(machine, "new [name]", "make a machine; it runs when this returns")
    .option("--image <image>", "name or id of an image (default: host)")
    .option("--size <size>", "small, medium, large, or vcpu=2,memory=4GiB,disk=20GiB (default: small)", machineSize)
    .option("--driver <driver>", "gvisor or namespace (default: gvisor where the host has it)")
    .option("--isolated", "no network at all")
    .option("--egress <host...>", "the only hosts it may reach: names, *.example.com, name:port")
    .option("--env <K=V>", "environment variable of its programs; repeat for more", pairs)
    .option("--label <K=V>", "name and text of your own; repeat for more", pairs)
    .option("--lifetime <seconds>", "delete it so long after its creation", seconds)
    .option("--count <number>", "make several, named NAME-1, NAME-2 …", wholeNumber(1, 100))
    .action((name: string | undefined, options: Flags & NewOptions) =>
      perform(finish, options, async (output) => (await import("./create.ts")).newMachine(output, name, options)),
    );
  leaf(machine, "list", "list your machines")
    .option("--label <K=V>", "only those with this label; repeat for more", pairs)
    .option("--state <state>", "only those in this state")
    .action(
      run(finish, async (output, options: ListOptions) => (await import("./list.ts")).listMachines(output, options)),
    );
  leaf(machine, "info <machine>", "show a machine by id or name").action((name: string, options: Flags) =>
    perform(finish, options, async (output) => (await import("./list.ts")).machineInfo(output, name)),
  );
}

function addLife(machine: Command, finish: Finish): void {
  for (const verb of ["stop", "start"] as const) {
    const does = verb === "stop" ? "end its programs and save its disk" : "start a stopped machine with its saved disk";
    leaf(machine, `${verb} <machine...>`, does).action((names: string[], options: Flags) =>
      perform(finish, options, async (output) => (await life()).changeMachines(output, verb, names)),
    );
  }
  leaf(machine, "delete <machine...>", "delete machines with their disks, from any state")
    .option("-y, --yes", "do not ask", false)
    .action((names: string[], options: Flags & { yes: boolean }) =>
      perform(finish, options, async (output) => (await life()).deleteMachines(output, names, options)),
    );
  leaf(machine, "logs <machine>", "show the last words of a machine's agent and runtime").action(
    (name: string, options: Flags) =>
      perform(finish, options, async (output) => (await life()).machineLogs(output, name)),
  );
}

function addExec(machine: Command, finish: Finish): void {
  leaf(machine, "exec <machine> <command...>", "run a program; put -- before it: one argument is a shell line")
    .option("--timeout <seconds>", "end it with all that it started", seconds)
    .option("--cwd <folder>", "absolute, or relative to the user's home")
    .option("--user <user>", "name, uid or uid:gid")
    .option("--env <K=V>", "environment variable; repeat for more", pairs)
    .option("--tty", "in a terminal (default: where standard input and output are one)")
    .option("--no-tty", "never in a terminal")
    .option("--detach", "print its id and leave it running", false)
    .option("--shell", "the arguments are one line for the shell", false)
    .option("--argv", "the arguments are a program and its own, without a shell", false)
    .action((name: string, command: string[], options: Flags & ExecFlags) =>
      perform(finish, options, async (output) =>
        (await import("./exec.ts")).execInMachine(output, name, command, options),
      ),
    );
  leaf(machine, "shell <machine>", "open a shell in a terminal")
    .option("--cwd <folder>", "absolute, or relative to the user's home")
    .option("--user <user>", "name, uid or uid:gid")
    .option("--env <K=V>", "environment variable; repeat for more", pairs)
    .action((name: string, options: Flags & Pick<ExecFlags, "cwd" | "user" | "env">) =>
      perform(finish, options, async (output) => (await interactive()).openShell(output, name, options)),
    );
}

function addExecs(machine: Command, finish: Finish): void {
  leaf(machine, "ps <machine>", "list what runs, and what ended in the last ten minutes").action(
    (name: string, options: Flags) =>
      perform(finish, options, async (output) => (await execs()).listExecs(output, name)),
  );
  leaf(machine, "attach <machine> <exec>", "join a running program, with its output so far")
    .option("--tty", "it runs in a terminal", false)
    .option("--now", "without the output so far", false)
    .action((name: string, exec: string, options: Flags & { tty: boolean; now: boolean }) =>
      perform(finish, options, async (output) => (await interactive()).attachExec(output, name, exec, options)),
    );
  leaf(machine, "kill <machine> <exec>", "send a signal to a program and all that it started")
    .option("--signal <name>", "which", signalName, "TERM")
    .option("--leader", "to the program alone", false)
    .action((name: string, exec: string, options: Flags & { signal: string; leader: boolean }) =>
      perform(finish, options, async (output) => (await execs()).killExec(output, name, exec, options)),
    );
}

function addFilesAndPorts(machine: Command, finish: Finish): void {
  leaf(
    machine,
    "cp <source> <target>",
    "copy a file or folder in or out: NAME:/PATH is inside, - standard input or output",
  )
    .option("--user <user>", "as whom inside: name, uid or uid:gid")
    .action((source: string, target: string, options: Flags & { user?: string }) =>
      perform(finish, options, async (output) => (await import("./copy.ts")).copy(output, source, target, options)),
    );
  leaf(machine, "url <machine> <port>", "print the addresses of a port")
    .option("--link <seconds>", "a signed address that needs no key so long, at most a day", seconds)
    .option("--public", "let anybody reach it, without key or link")
    .option("--no-public", "no longer")
    .action((name: string, text: string, options: Flags & UrlOptions) =>
      perform(finish, options, async (output) =>
        (await import("./url.ts")).machineUrl(output, name, port(text), options),
      ),
    );
}

/** `df` and `gc`. */
export function addStorageCommands(program: Command, finish: Finish): void {
  const storage = () => import("../storage.ts");
  leaf(program, "df", "show what the server keeps on its disk").action(
    run(finish, async (output) => (await storage()).showStorage(output)),
  );
  leaf(program, "gc", "remove what nothing uses, least recently used first")
    .option("--dry-run", "only say what that would be", false)
    .option("-y, --yes", "do not ask", false)
    .action(
      run(finish, async (output, options: { dryRun: boolean; yes: boolean }) =>
        (await storage()).collectStorage(output, options),
      ),
    );
}
