//! An OCI bundle made by hand, as the worker's namespace driver makes one: a user namespace, the agent's
//! capabilities, `/proc` with hidepid, tmpfs, and read-only binds of the host's programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

const CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_ADMIN",
    "CAP_SYS_PTRACE",
];

const ENVIRONMENT: &str = r#"
import subprocess
from sandpool.env import serve

def step(role):
    run = subprocess.run(["/sandpool/agent", *role], capture_output=True, text=True)
    return run.stdout, 0.0, False, {}

serve(reset=lambda seed: seed, step=step)
"#;

/// How the container differs from the worker's.
#[derive(Clone, Debug)]
pub struct Container {
    /// The worker's container filter, in essence. Off by default, so that a test proves the agent's own.
    pub filter: bool,
    pub no_new_privileges: bool,
    pub capabilities: Vec<&'static str>,
    /// Memory cgroups `e0 …` of this many rows, of this size.
    pub memory: Option<(usize, u64)>,
}

impl Default for Container {
    fn default() -> Self {
        Self { filter: false, no_new_privileges: true, capabilities: CAPABILITIES.to_vec(), memory: None }
    }
}

/// A bundle's folder and cgroups, removed when dropped.
pub struct Bundle {
    pub folder: PathBuf,
    pub name: String,
    cgroups: Vec<PathBuf>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Bundle {
    /// A bundle whose process 1 is that program with these arguments.
    pub fn make(container: &Container, agent: &Path, arguments: &[&str]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let name = format!("sandpool-isolation-{process}-{number}");
        let folder = std::env::temp_dir().join(&name);
        let first_uid = 1_900_000_000 + (process.wrapping_mul(31) + number) % 3000 * 65536;
        let mut bundle = Self { folder, name, cgroups: Vec::new() };
        bundle.make_root(first_uid, agent);
        bundle.make_memory_groups(container, first_uid);
        let config = bundle.config(container, first_uid, arguments);
        fs::write(bundle.folder.join("config.json"), config.to_string()).expect("config.json");
        bundle
    }

    fn make_root(&self, first_uid: u32, agent: &Path) {
        let root = self.folder.join("rootfs");
        let folders = ["usr", "etc", "proc", "dev", "sys", "run", "tmp", "workspace", "env", "sandpool"];
        for folder in folders {
            fs::create_dir_all(root.join(folder)).expect("rootfs");
        }
        for link in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{link}"), root.join(link)).expect("link");
        }
        fs::create_dir(self.folder.join("env")).expect("env");
        fs::write(self.folder.join("env/code"), "code").expect("env/code");
        self.add_python_environment();
        // Files of the container's root, so that only the mounts protect them.
        for path in ["env", "env/code"] {
            chown(self.folder.join(path), Some(first_uid), Some(first_uid)).expect("chown");
        }
        for (copy, mode) in [("agent", 0o755), ("setuid", 0o4755)] {
            let path = self.folder.join(copy);
            fs::copy(agent, &path).expect("the agent");
            chown(&path, Some(first_uid), Some(first_uid)).expect("chown");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
            fs::write(root.join("sandpool").join(copy), "").expect("mount point");
        }
    }

    /// The real helper, and an environment whose step runs the probe in the role that is its action.
    fn add_python_environment(&self) {
        let package = self.folder.join("env/sandpool");
        fs::create_dir(&package).expect("a package");
        fs::write(package.join("__init__.py"), "").expect("a package");
        let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/src/sandpool/env");
        fs::create_dir(package.join("env")).expect("a package");
        for file in fs::read_dir(&helper).unwrap_or_else(|error| panic!("{}: {error}", helper.display())) {
            let path = file.expect("the helper").path();
            if path.extension().is_some_and(|extension| extension == "py") {
                fs::copy(&path, package.join("env").join(path.file_name().expect("a name"))).expect("the helper");
            }
        }
        fs::write(self.folder.join("env/env.py"), ENVIRONMENT).expect("the environment");
    }

    /// As the worker: `cgroup.procs` and `tasks` belong to the container's root and the template's group.
    fn make_memory_groups(&mut self, container: &Container, first_uid: u32) {
        let Some((count, bytes)) = container.memory else { return };
        let parent = Path::new("/sys/fs/cgroup/memory").join(&self.name);
        fs::create_dir(&parent).expect("a memory cgroup: needs cgroup version 1 and root");
        self.cgroups.push(parent.clone());
        let names = (0..count).map(|number| format!("e{number}")).chain(["states".to_owned()]);
        for name in names {
            let group = parent.join(name);
            fs::create_dir(&group).expect("a row's cgroup");
            fs::write(group.join("memory.limit_in_bytes"), bytes.to_string()).expect("a limit");
            for members in ["cgroup.procs", "tasks"].map(|name| group.join(name)) {
                chown(&members, Some(first_uid), Some(first_uid + 1000)).expect("chown");
                fs::set_permissions(&members, fs::Permissions::from_mode(0o664)).expect("mode");
            }
            self.cgroups.push(group);
        }
    }

    fn config(&self, container: &Container, first_uid: u32, arguments: &[&str]) -> Value {
        let capabilities = &container.capabilities;
        let mapping = json!([{"containerID": 0, "hostID": first_uid, "size": 65536}]);
        let namespaces = ["user", "pid", "mount", "ipc", "uts", "network", "cgroup"];
        let mut linux = json!({
            "namespaces": namespaces.map(|kind| json!({"type": kind})),
            "uidMappings": mapping,
            "gidMappings": mapping,
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "rootfsPropagation": "private",
        });
        if container.filter {
            linux["seccomp"] = filter();
        }
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": ([&["/sandpool/agent"], arguments].concat()),
                "env": ["PATH=/usr/bin:/bin"],
                "cwd": "/",
                "capabilities": {
                    "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                    "inheritable": [], "ambient": [],
                },
                "noNewPrivileges": container.no_new_privileges,
            },
            "root": {"path": "rootfs", "readonly": true},
            "hostname": "sandpool",
            "mounts": self.mounts(container),
            "linux": linux,
        })
    }

    fn mounts(&self, container: &Container) -> Value {
        let own = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let bind = |source: String, target: &str, options: &[&str]| {
            let options = [&["bind"], options].concat();
            json!({"destination": target, "type": "bind", "source": source, "options": options})
        };
        let tmpfs = |target: &str, options: &[&str]| json!({"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["hidepid=2"]}),
            tmpfs("/dev", &["nosuid", "mode=755"]),
            tmpfs("/dev/shm", &["nosuid", "nodev", "mode=1777"]),
            tmpfs("/run", &["nosuid", "nodev", "mode=755"]),
            tmpfs("/tmp", &["nosuid", "nodev", "mode=1777"]),
            bind("/usr".into(), "/usr", &["ro", "nosuid", "nodev"]),
            bind(own("env"), "/env", &["ro", "nosuid", "nodev"]),
            bind(own("agent"), "/sandpool/agent", &["ro", "nosuid", "nodev"]),
            // Not nosuid: the identity must hold by itself.
            bind(own("setuid"), "/sandpool/setuid", &["ro"]),
        ];
        if container.memory.is_some() {
            let groups = self.cgroups[0].to_string_lossy().into_owned();
            mounts.push(bind(groups, "/run/memory", &["rw"]));
        }
        mounts.into()
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        for group in self.cgroups.iter().rev() {
            let _ = fs::remove_dir(group);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The essence of the worker's: mounts and mount namespaces only, no other namespace, no clone3.
fn filter() -> Value {
    let refuse = |name: &str, arguments: Value| json!({"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": arguments});
    let new_user = 0x1000_0000;
    let masked = |mask: u64| json!([{"index": 0, "value": mask, "valueTwo": mask, "op": "SCMP_CMP_MASKED_EQ"}]);
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [
            refuse("clone", masked(new_user)),
            refuse("unshare", json!([{"index": 0, "value": 0x20000, "op": "SCMP_CMP_NE"}])),
            refuse("umount2", json!([{"index": 1, "value": 2, "op": "SCMP_CMP_NE"}])),
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    })
}
