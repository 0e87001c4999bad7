//! `shim.json`: what the driver asked for. The driver has checked it; here it is only read.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Which command line the runtime speaks.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    /// gVisor: every call runs in the machine's own user namespace.
    Runsc,
    /// An ordinary runtime: the container's spec maps the uids.
    Runc,
}

/// The OCI runtime.
#[derive(Debug, Clone, Deserialize)]
pub struct Runtime {
    /// Its kind.
    pub kind: RuntimeKind,
    /// Absolute path.
    pub path: PathBuf,
    /// Its `--root`.
    pub root: PathBuf,
    /// Further flags of every call.
    pub flags: Vec<String>,
}

/// Host ids of the machine.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Uids {
    /// Host id of 0 inside.
    pub base: u32,
    /// How many.
    pub count: u32,
}

/// What is mounted in the machine's own mount namespace on the host, in order, before the runtime starts.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mount {
    /// A folder or file at another place.
    Bind {
        /// What.
        source: PathBuf,
        /// Where; it exists.
        target: PathBuf,
        /// Also against the mapped root.
        read_only: bool,
        /// Whether ids 0… of the source appear as the machine's.
        idmap: Idmap,
    },
    /// An ext4 file.
    Ext4 {
        /// The file.
        source: PathBuf,
        /// Where.
        target: PathBuf,
        /// Folders to make in it, owned by the machine's root.
        folders: Vec<String>,
        /// A tar to unpack into the first of them, once.
        unpack: Option<PathBuf>,
    },
    /// Copy-on-write over a read-only folder.
    Overlay {
        /// Below.
        lower: PathBuf,
        /// What is written.
        upper: PathBuf,
        /// The kernel's own.
        work: PathBuf,
        /// Where.
        target: PathBuf,
    },
    /// Read-only folders over each other, the first on top.
    Layers {
        /// The folders.
        folders: Vec<PathBuf>,
        /// Where.
        target: PathBuf,
    },
    /// Paths that have to be folders, or missing: a link there would redirect what the runtime mounts.
    Check {
        /// Where the paths start.
        root: PathBuf,
        /// Relative paths.
        folders: Vec<String>,
    },
}

/// Whether a mount maps ids.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Idmap {
    /// No.
    No,
    /// Where the file system can.
    Try,
    /// Or the start fails.
    Must,
}

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    /// The machine, and the container's name for the runtime.
    pub id: String,
    /// The runtime.
    pub runtime: Runtime,
    /// Folder with `config.json`.
    pub bundle: PathBuf,
    /// Host ids.
    pub uids: Option<Uids>,
    /// Whether the runtime's calls run inside a user namespace of those ids.
    pub user_namespace: bool,
    /// Whether the machine has a network namespace that is set up from outside before the container is created.
    #[serde(default)]
    pub network: bool,
    /// Whether the container waits, once it is created, for a state to be restored into it.
    #[serde(default)]
    pub restore: bool,
    /// Environment of the runtime's calls.
    pub environ: BTreeMap<String, String>,
    /// How long a machine may take to stop.
    pub stop_ms: u64,
    /// Mounts of the machine's own mount namespace.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Folders of its cgroups: runsc enters them, and at the end nothing is in them.
    #[serde(default)]
    pub groups: Vec<PathBuf>,
    /// The one that counts kills for lack of memory.
    #[serde(default)]
    pub memory_group: Option<PathBuf>,
}

/// Reads `shim.json` of a machine's folder.
pub fn read(folder: &Path) -> io::Result<Settings> {
    let file = folder.join("shim.json");
    let text = std::fs::read(&file).map_err(|error| explain(error, &file))?;
    serde_json::from_slice(&text).map_err(|error| explain(error.into(), &file))
}

fn explain(error: io::Error, file: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}
