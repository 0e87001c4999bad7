//! `sandpool-agent keep CONTROL SPECIFICATION`: the parent of one exec. Whatever its program leaves behind stays below
//! it, and it ends with its last descendant.
//!
//! It talks with the agent over the stream socket CONTROL, a JSON object a line. SPECIFICATION is a file with the
//! `Specification`; standard input, output and error are the program's.

mod credentials;
mod launch;
mod supervise;
mod tree;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

pub use credentials::{Credentials, become_thread};

/// What the keeper starts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Specification {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// All variables.
    pub environ: BTreeMap<String, String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// False: `/` where that folder cannot be entered.
    pub cwd_required: bool,
    /// Who it runs as.
    pub credentials: Credentials,
    /// Whether standard input is a terminal to take as its own.
    pub tty: bool,
    /// Soft limit of open descriptors to give back.
    pub descriptor_limit: Option<u64>,
}

/// From the keeper to the agent.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The program runs.
    Started {
        /// Its number.
        pid: i32,
    },
    /// The program could not be started; nothing runs.
    Failed {
        /// The system's error.
        errno: i32,
        /// Which step: `cwd`, `user`, `program` or `keeper`.
        what: String,
    },
    /// The program has ended.
    Exited {
        /// Exit code.
        code: Option<i32>,
        /// Signal that ended it.
        signal: Option<i32>,
        /// Whether something of it lives on.
        left: bool,
    },
    /// A signal was sent.
    Signalled {
        /// The order's number.
        order: u32,
        /// How many processes got it.
        count: usize,
    },
    /// Nothing is left; the keeper ends.
    Empty,
}

/// From the agent to the keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Send a signal to the program, or to all of its tree.
    Signal {
        /// Repeated in the answer.
        order: u32,
        /// Number of the signal.
        signal: i32,
        /// Whether everything below the keeper gets it.
        tree: bool,
    },
    /// TERM to the tree, then KILL until nothing is left.
    End {
        /// Milliseconds between the two.
        grace_ms: u64,
    },
    /// The machine stood still: what is due is due later.
    Away {
        /// That much.
        ms: u64,
    },
}

/// Runs the keeper; `arguments` are the two numbers. Returns its exit code.
pub fn run(arguments: &[String]) -> i32 {
    let numbers: Vec<RawFd> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let [control, specification] = numbers[..] else {
        eprintln!(
            "sandpool-agent keep: received {arguments:?}, expected two descriptors; only the agent starts keepers"
        );
        return 64;
    };
    // SAFETY: the agent passed both for this process alone.
    let (control, mut file) = unsafe { (OwnedFd::from_raw_fd(control), File::from_raw_fd(specification)) };
    let read = file.seek(SeekFrom::Start(0)).map_err(|error| error.to_string()).and_then(|_| {
        serde_json::from_reader::<_, Specification>(std::io::BufReader::new(&mut file))
            .map_err(|error| error.to_string())
    });
    drop(file);
    match read {
        Ok(specification) => supervise::run(control, &specification),
        Err(error) => {
            eprintln!("sandpool-agent keep: the specification cannot be read: {error}");
            70
        }
    }
}
