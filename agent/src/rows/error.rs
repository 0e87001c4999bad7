//! Why a row failed.

use crate::isolation::Exit;
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of standard error that an error carries.
pub const STDERR_TAIL_BYTES: usize = 4096;
const TEXT_LIMIT_BYTES: usize = 64 << 10;

/// The kinds of failure; see pool semantics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No answer within the deadline.
    Timeout,
    /// The process ended or closed its channel.
    Crash,
    /// The kernel ended it for its memory, or it ran out itself.
    Oom,
    /// The environment raised.
    Exception,
    /// It broke the protocol.
    Protocol,
    /// It could not be replaced.
    Lost,
}

impl ErrorKind {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Crash => "crash",
            Self::Oom => "oom",
            Self::Exception => "exception",
            Self::Protocol => "protocol",
            Self::Lost => "lost",
        }
    }
}

/// A row's error, as its info and the status show it.
#[derive(Debug, Clone)]
pub struct RowError {
    /// What happened.
    pub kind: ErrorKind,
    /// During which request.
    pub op: &'static str,
    /// In words.
    pub message: String,
    /// How the process ended, if it did.
    pub exit: Option<Exit>,
    /// The end of its standard error.
    pub stderr_tail: String,
    /// The environment's own traceback.
    pub traceback: Option<String>,
    /// Class of the exception.
    pub exception_type: Option<String>,
    /// The deadline that passed.
    pub deadline_s: Option<f64>,
    /// CPU time of the process.
    pub cpu_s: Option<f64>,
}

impl RowError {
    /// An error with nothing but words.
    pub fn new(kind: ErrorKind, op: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            op,
            message: message.into(),
            exit: None,
            stderr_tail: String::new(),
            traceback: None,
            exception_type: None,
            deadline_s: None,
            cpu_s: None,
        }
    }

    /// The members of `sandpool_error`.
    pub fn to_json(&self, repeated: bool) -> Value {
        let mut error = json!({
            "kind": self.kind.name(),
            "op": self.op,
            "message": self.message,
            "exit_code": self.exit.as_ref().and_then(|exit| exit.code),
            "signal": self.exit.as_ref().and_then(|exit| exit.signal),
            "stderr_tail": self.stderr_tail,
            "traceback": self.traceback,
            "type": self.exception_type,
            "deadline_s": self.deadline_s,
            "cpu_s": self.cpu_s,
        });
        if repeated {
            error["repeated"] = json!(true);
        }
        error
    }

    /// Appends the info of a row that failed with this error.
    pub fn write_info(&self, repeated: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sandpool_error\":");
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &self.to_json(repeated));
        if self.kind == ErrorKind::Timeout {
            out.extend_from_slice(b",\"sandpool_straggler\":true");
        }
        out.push(b'}');
    }
}

/// The `error` of an environment's reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReportedError {
    /// `exception`, `oom`, `fork_unsupported`, …
    pub kind: Option<String>,
    /// Class of the exception.
    #[serde(rename = "type")]
    pub exception_type: Option<String>,
    /// In words.
    pub message: Option<String>,
    /// Where.
    pub traceback: Option<String>,
    /// What keeps the program from forking.
    pub blockers: Option<Value>,
}

impl ReportedError {
    /// Reads it; a member of another type than expected leaves only the text itself.
    pub fn parse(text: &[u8]) -> Self {
        let mut error: Self = serde_json::from_slice(text).unwrap_or_else(|_| {
            let message = serde_json::from_slice(text).unwrap_or_else(|_| String::from_utf8_lossy(text).into_owned());
            Self { message: Some(message), ..Self::default() }
        });
        for member in [&mut error.message, &mut error.traceback, &mut error.exception_type] {
            member.as_mut().map(shorten);
        }
        error
    }

    /// The row's error that it becomes.
    pub fn into_error(self, op: &'static str) -> RowError {
        let kind = match self.kind.as_deref() {
            Some("oom") => ErrorKind::Oom,
            Some("protocol") => ErrorKind::Protocol,
            _ => ErrorKind::Exception,
        };
        let mut error = RowError::new(kind, op, self.message.unwrap_or_default());
        error.exception_type = self.exception_type;
        error.traceback = self.traceback;
        error
    }
}

/// Keeps the end of a text that is too long: a traceback's last lines say most.
fn shorten(text: &mut String) {
    if text.len() > TEXT_LIMIT_BYTES {
        let mut start = text.len() - TEXT_LIMIT_BYTES;
        while !text.is_char_boundary(start) {
            start += 1;
        }
        *text = format!("… {}", &text[start..]);
    }
}
