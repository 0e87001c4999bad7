//! Changes that were not told yet: each once, and no more of them than memory should hold.

use crate::machine::streams::Outbound;
use serde_json::json;
use std::collections::HashSet;
use std::path::Path;

/// With more than this the reader has to look for itself.
const MOST: usize = 4096;

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is new.
    Created,
    /// Its bytes or attributes changed.
    Modified,
    /// It is gone.
    Removed,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Removed => "removed",
        }
    }
}

/// Lines in the order in which they first came.
#[derive(Debug, Default)]
pub struct Changes {
    lines: Vec<String>,
    known: HashSet<String>,
    missed: bool,
}

impl Changes {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.missed
    }

    /// Something happened to a path.
    pub fn add(&mut self, kind: Kind, path: &Path) {
        self.add_line(json!({"kind": kind.name(), "path": path.to_string_lossy()}).to_string(), kind == Kind::Modified);
    }

    /// A path has another name now.
    pub fn add_move(&mut self, from: &Path, to: &Path) {
        let line = json!({"kind": "moved", "path": from.to_string_lossy(), "to": to.to_string_lossy()});
        self.add_line(line.to_string(), false);
    }

    /// Some were missed: the reader has to look for itself.
    pub fn miss(&mut self) {
        self.lines.clear();
        self.known.clear();
        self.missed = true;
    }

    /// A repeated change of bytes says nothing new; a path that came, went and came again does.
    fn add_line(&mut self, line: String, once: bool) {
        if self.missed || (once && !self.known.insert(line.clone())) {
            return;
        }
        if !once {
            self.known.clear();
        }
        self.lines.push(line);
        if self.lines.len() > MOST {
            self.miss();
        }
    }

    /// Tells everything.
    pub fn tell(&mut self, queue: &Outbound) {
        if std::mem::take(&mut self.missed) {
            self.lines.push(json!({"kind": "rescan"}).to_string());
        }
        self.known.clear();
        let text: String = self.lines.drain(..).map(|line| line + "\n").collect();
        // A reader that has cancelled is seen by whoever watches.
        let _ = queue.send(text.as_bytes());
    }
}
