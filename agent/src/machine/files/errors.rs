//! The system's errors in the contract's words.

use crate::channel::error::RequestError;
use serde_json::json;
use std::fmt::Display;
use std::io;

/// An error about a path: what was tried, on what, and what the system said.
pub fn failed(tried: impl Display, path: &str, error: &io::Error) -> RequestError {
    let errno = error.raw_os_error();
    let code = match errno {
        Some(libc::ENOENT) => "file_not_found",
        Some(libc::EEXIST) => "file_exists",
        Some(libc::ENOTDIR) => "not_a_directory",
        Some(libc::EISDIR) => "is_a_directory",
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => "permission_denied",
        Some(libc::ENOSPC | libc::EDQUOT) => "disk_full",
        _ => "file_invalid",
    };
    RequestError::new(code, format!("{tried} {path:?}: {error}")).with_details(json!({"path": path, "errno": errno}))
}

/// An error of ours about a path.
pub fn invalid(path: &str, message: impl Display) -> RequestError {
    RequestError::new("file_invalid", format!("{path:?} {message}"))
        .with_details(json!({"path": path, "errno": serde_json::Value::Null}))
}
